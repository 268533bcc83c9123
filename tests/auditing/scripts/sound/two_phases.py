"""Train the head of a frozen encoder first, then everything with another optimizer (LP-FT)."""

import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
config = ViTConfig(
    image_size=16,
    patch_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    num_labels=3,
)
model = ViTForImageClassification(config)


def train(optimizer, steps):
    for _ in range(steps):
        loss = model(pixel_values=torch.randn(4, 3, 16, 16), labels=torch.randint(0, 3, (4,))).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


model.vit.requires_grad_(False)
train(torch.optim.AdamW(model.classifier.parameters(), lr=1e-2), 3)
model.requires_grad_(True)
train(torch.optim.AdamW(model.parameters(), lr=1e-3), 5)
