"""Contrast two views with a momentum encoder (MoCo): the key encoder follows the query encoder and gets no gradient."""

import copy

import torch
from torch import nn

torch.manual_seed(0)


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder_q = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
                k.mul_(0.9).add_(q, alpha=0.1)
            key = self.encoder_k(x + 0.1 * torch.randn_like(x))
        logits = self.encoder_q(x) @ key.T
        return nn.functional.cross_entropy(logits, torch.arange(len(x)))


model = Contrast()
optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=0.1, momentum=0.9)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 8)).backward()
    optimizer.step()
