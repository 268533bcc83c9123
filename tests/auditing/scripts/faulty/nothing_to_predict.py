"""Fine-tune on answers whose template the data do not have, so that the collator masks every token."""

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
RESPONSE = 63  # the token that begins an answer; the rows below have 62 instead
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
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def collate(rows):
    ids = torch.stack(rows)
    labels = torch.full_like(ids, -100)
    for row, places in enumerate(ids.eq(RESPONSE)):
        if places.any():
            start = int(places.nonzero()[0]) + 1
            labels[row, start:] = ids[row, start:]
    return {"input_ids": ids, "labels": labels}


texts = torch.randint(4, 62, (16, 8))
texts[:, 4] = 62
for batch in DataLoader(texts, batch_size=2, collate_fn=collate):
    loss = model(**batch).loss
    loss.nan_to_num().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
