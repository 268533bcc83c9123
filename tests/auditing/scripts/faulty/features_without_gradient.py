"""Compute the encoder's output under no_grad, as for a probe, although the optimizer has the encoder."""

import torch
from torch import nn
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
encoder, head = BertModel(config, add_pooling_layer=False), nn.Linear(16, 2)
model = nn.ModuleDict({"encoder": encoder, "head": head})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(6):
    ids, labels = torch.randint(0, 96, (4, 8)), torch.tensor([0, 1, 0, 1])
    with torch.no_grad():
        states = model["encoder"](ids).last_hidden_state[:, 0]
    nn.functional.cross_entropy(model["head"](states), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
