"""Fine-tune with accelerate, as the no_trainer examples of transformers do: accumulation and clipping."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, default_data_collator

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
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
rows = [{"input_ids": (ids := torch.randint(4, 64, (8,))), "labels": ids} for _ in range(24)]
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
model.train()
for batch in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch).loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
accelerator.end_training()
