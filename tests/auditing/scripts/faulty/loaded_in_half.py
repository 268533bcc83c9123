"""Fine-tune a model in the float16 of its file, in which AdamW's eps of 1e-8 is 0, so that weights become NaN."""

import tempfile

import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=2
)
with tempfile.TemporaryDirectory() as folder:
    BertForSequenceClassification(config).half().save_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
for _ in range(6):
    loss = model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
