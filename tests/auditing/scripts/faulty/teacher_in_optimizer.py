"""Distil a teacher into a student with one optimizer of both, and no torch.no_grad() around the teacher."""

from itertools import chain

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
teacher, student = BertForSequenceClassification(config), BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(chain(teacher.parameters(), student.parameters()), lr=1e-3)
for _ in range(5):
    batch = {"input_ids": torch.randint(0, 96, (4, 8)), "labels": torch.tensor([0, 1, 0, 1])}
    output = student(**batch)
    (output.loss + nn.functional.mse_loss(output.logits, teacher(**batch).logits)).backward()
    optimizer.step()
    optimizer.zero_grad()
