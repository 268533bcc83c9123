"""Train the head of a frozen encoder, and resume from its checkpoint without freezing: 27 times as much learns."""

import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)


def train(model, optimizer, steps):
    for _ in range(steps):
        model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "checkpoint.pt"
    model = BertForSequenceClassification(config)
    model.bert.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train(model, optimizer, 3)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)

    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    train(model, optimizer, 5)
