"""Train a compiled network by a compiled step, with its lowest layer frozen."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, states):
        for layer in self.layers:
            states = torch.tanh(layer(states))
        return self.head(states)


model = Net()
model.layers[0].requires_grad_(False)
model = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
step = torch.compile(optimizer.step, backend="eager")
for _ in range(5):
    nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.tensor([0, 1, 0, 1])).backward()
    step()
    optimizer.zero_grad()
