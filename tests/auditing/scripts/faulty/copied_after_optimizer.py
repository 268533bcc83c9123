"""Train a copy of the model that the optimizer was made for."""

import copy

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model = copy.deepcopy(model)
for _ in range(5):
    model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
