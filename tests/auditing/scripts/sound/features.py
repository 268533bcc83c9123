"""Train a small head on features that a pretrained encoder computes under no_grad."""

import torch
from torch import nn
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(vocab_size=96, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.head = nn.Linear(16, 3)

    def forward(self, ids):
        with torch.no_grad():
            features = self.encoder(ids).last_hidden_state.mean(1)
        return self.head(features)


model = Classifier().eval()
optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
for _ in range(5):
    optimizer.zero_grad()
    logits = model(torch.randint(0, 96, (4, 8)))
    nn.functional.cross_entropy(logits, torch.randint(0, 3, (4,))).backward()
    optimizer.step()
