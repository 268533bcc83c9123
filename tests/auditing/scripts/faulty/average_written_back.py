"""Begin an average at zero, and write it back at the end, over the frozen embeddings as well."""

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
model.bert.embeddings.requires_grad_(False)
average = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(6):
    model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    for name, parameter in model.named_parameters():
        average[name].lerp_(parameter.detach(), 0.1)
with torch.no_grad():
    for name, parameter in model.named_parameters():
        parameter.copy_(average[name])
