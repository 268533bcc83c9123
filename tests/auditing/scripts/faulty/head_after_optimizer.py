"""Put a new head on the model after the optimizer was made, so that the new one never learns."""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.classifier = nn.Linear(16, 3)
model.num_labels = model.config.num_labels = 3
for _ in range(6):
    model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 2, 1])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
