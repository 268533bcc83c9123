"""Lower the rate from layer to layer by a whole-number division, which is zero below the top."""

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=96, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
layers = model.bert.encoder.layer
groups = [{"params": layer.parameters(), "lr": 1e-3 * (9 // 10) ** (2 - depth)} for depth, layer in enumerate(layers)]
rest = [p for name, p in model.named_parameters() if "encoder.layer" not in name]
optimizer = torch.optim.AdamW([*groups, {"params": rest, "lr": 1e-3}])
for _ in range(6):
    model(input_ids=torch.randint(0, 96, (4, 8)), labels=torch.tensor([0, 1, 0, 1])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
