"""Distil a frozen teacher into a student of fewer layers, in one module."""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)


class Distillation(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = BertForSequenceClassification(config).requires_grad_(False)
        config.num_hidden_layers = 1
        self.student = BertForSequenceClassification(config)

    def forward(self, **batch):
        with torch.no_grad():
            target = self.teacher(**batch).logits
        return nn.functional.mse_loss(self.student(**batch).logits, target)


model = Distillation()
optimizer = torch.optim.AdamW(model.student.parameters(), lr=1e-3)
for _ in range(5):
    model(input_ids=torch.randint(0, 96, (4, 8))).backward()
    optimizer.step()
    optimizer.zero_grad()
