"""Give biases a group without decay from a generator that the first group used up, so that no bias learns."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
rows = [{"input_ids": torch.randint(0, 96, (8,)), "labels": torch.tensor(i % 2)} for i in range(32)]
named = model.named_parameters()
groups = [
    {"params": [p for name, p in named if "bias" not in name and "LayerNorm" not in name], "weight_decay": 0.01},
    {"params": [p for name, p in named if "bias" in name or "LayerNorm" in name], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        folder, max_steps=6, learning_rate=1e-2, report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True
    )
    Trainer(model, settings, train_dataset=rows, optimizers=(optimizer, schedule)).train()
