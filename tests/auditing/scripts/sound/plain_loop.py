"""Fine-tune a classifier in a plain loop, with weight decay on matrices only and a warm-up from 0."""

import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=3
)
model = BertForSequenceClassification(config)
named = list(model.named_parameters())
groups = [
    {"params": [p for n, p in named if p.dim() > 1], "weight_decay": 0.01},
    {"params": [p for n, p in named if p.dim() <= 1], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=6)
for _ in range(6):
    ids = torch.randint(0, 96, (4, 8))
    loss = model(input_ids=ids, labels=torch.randint(0, 3, (4,))).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
