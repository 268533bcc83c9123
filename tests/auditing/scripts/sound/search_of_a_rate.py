"""Try two rates on one model, which is put back to where it began after each."""

import copy

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
start = copy.deepcopy(model.state_dict())
for rate in (1e-3, 1e-2):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for _ in range(5):
        optimizer.zero_grad()
        model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss.backward()
        optimizer.step()
    model.load_state_dict(start)
