"""Give the head an optimizer of its own, and to the model's as well: it takes two steps for each gradient."""

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
slow = torch.optim.AdamW(model.parameters(), lr=1e-4)
fast = torch.optim.AdamW(model.classifier.parameters(), lr=1e-2)
for _ in range(6):
    model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss.backward()
    for optimizer in (slow, fast):
        optimizer.step()
        optimizer.zero_grad(set_to_none=optimizer is fast)
