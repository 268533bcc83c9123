"""Train bfloat16 weights at a rate whose updates are smaller than the rounding of the weights."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config).to(torch.bfloat16)
rows = [{"input_ids": torch.randint(0, 96, (8,)), "labels": torch.tensor(i % 2)} for i in range(32)]
with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        folder, max_steps=6, learning_rate=1e-7, report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True
    )
    Trainer(model, settings, train_dataset=rows).train()
