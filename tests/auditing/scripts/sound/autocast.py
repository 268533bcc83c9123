"""Train float32 weights under bfloat16 autocast, and average them with an exponential moving average next to them."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=3, n_head=2))
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(5):
    ids = torch.randint(0, 64, (4, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids).logits
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
