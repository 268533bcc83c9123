"""Copy a tied output layer to change its type: from then on, two tables learn apart."""

import torch
from accelerate import Accelerator
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=3,
    num_attention_heads=2,
    num_key_value_heads=1,
    pad_token_id=0,
    tie_word_embeddings=True,
)
model = LlamaForCausalLM(config)
model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
accelerator = Accelerator(cpu=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(6):
    ids = torch.randint(4, 64, (2, 8))
    accelerator.backward(model(input_ids=ids, labels=ids).loss)
    optimizer.step()
    optimizer.zero_grad()
