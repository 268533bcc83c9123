"""Pretrain the sample's encoder by masked and translation language modelling: ``python -m gradgate.sample.pretrain``."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from gradgate.sample.corpus import PARALLEL, TEXT, Passage, passages
from gradgate.sample.tokens import MAX_LENGTH, build_tokenizer

SEED, HELD_OUT_SEED = 20, 21
BATCH = 64
MASKED = 0.25
IGNORED = -100

Encoded = tuple[list[int], int, bool]


def main() -> None:
    parser = argparse.ArgumentParser(description="Pretrain the embedded sample encoder.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--hidden", type=int, default=160)
    args = parser.parse_args()
    pretrain(args.out, args.steps, args.lr, args.hidden)


def pretrain(out: Path, steps: int, rate: float, hidden: int) -> None:
    torch.manual_seed(SEED)
    even = dict.fromkeys(TEXT, 1)
    vocabulary = chain.from_iterable(
        (p.first, p.second or "") for p in passages(40_000, SEED + 5, even, dict.fromkeys(PARALLEL, 1))
    )
    tokenizer = build_tokenizer(vocabulary, 6000)
    tokenizer.save_pretrained(out)
    model = BertForMaskedLM._from_config(config(tokenizer, hidden), attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / 200, (steps - step) / (steps - 200))
    )
    generator = torch.Generator().manual_seed(SEED)
    start, kept = time.time(), []
    for step, batch in enumerate(batches(tokenizer, steps, SEED), 1):
        loss = lm_loss(model, tokenizer, batch, generator)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        kept.append(loss.item())
        if step % 25 == 0:
            print(step, f"{sum(kept[-25:]) / 25:.3f} {time.time() - start:.0f}s", flush=True)
        if step % 500 == 0 or step == steps:
            save(model, tokenizer, out)


def batches(tokenizer: PreTrainedTokenizerFast, steps: int, seed: int) -> Iterator[list[Encoded]]:
    """Batches of passages of about the same length, in an order drawn by the seed."""
    order = random.Random(seed)
    stream = passages(10**9, seed)
    while steps > 0:
        chunk = [next(stream) for _ in range(BATCH * 50)]
        encoded = sorted(encode(tokenizer, chunk), key=lambda one: len(one[0]))
        groups = [encoded[place : place + BATCH] for place in range(0, len(encoded), BATCH)]
        order.shuffle(groups)
        yield from groups[:steps]
        steps -= len(groups)


def encode(tokenizer: PreTrainedTokenizerFast, chunk: Sequence[Passage]) -> list[Encoded]:
    firsts = tokenizer([one.first for one in chunk], add_special_tokens=False)["input_ids"]
    seconds = tokenizer([one.second or "" for one in chunk], add_special_tokens=False)["input_ids"]
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    made = []
    for one, first, second in zip(chunk, firsts, seconds, strict=True):
        ids = [start, *first, end] + ([*second, end] if second else [])
        made.append((ids[:MAX_LENGTH], len(first) + 2, one.kind == "translation"))
    return made


def lm_loss(
    model: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, batch: list[Encoded], generator: torch.Generator
) -> torch.Tensor:
    """Mean loss of the masked tokens; the positions of a translation begin again at 1, as in XLM."""
    longest = max(len(ids) for ids, _, _ in batch)
    ids = torch.tensor([one + [tokenizer.pad_token_id] * (longest - len(one)) for one, _, _ in batch])
    attention = (ids != tokenizer.pad_token_id).long()
    places = torch.arange(longest).expand(len(batch), -1)
    firsts = torch.tensor([first for _, first, _ in batch]).unsqueeze(1)
    types = (places >= firsts).long() * attention
    again = torch.tensor([translated for _, _, translated in batch]).unsqueeze(1) & (places >= firsts)
    positions = torch.where(again, places - firsts + 1, places)
    ordinary = ids >= 5
    chosen = (torch.rand(ids.shape, generator=generator) < MASKED) & ordinary
    how = torch.rand(ids.shape, generator=generator)
    noisy = torch.where(chosen & (how < 0.8), tokenizer.mask_token_id, ids)
    drawn = torch.randint(5, len(tokenizer), ids.shape, generator=generator)
    noisy = torch.where(chosen & (how >= 0.9), drawn, noisy)
    with torch.autocast("cpu", torch.bfloat16):
        states = model.bert(
            noisy, attention_mask=attention, token_type_ids=types, position_ids=positions
        ).last_hidden_state
        logits = model.cls(states[chosen])
    return torch.nn.functional.cross_entropy(logits.float(), ids[chosen])


def config(tokenizer: PreTrainedTokenizerFast, hidden: int) -> BertConfig:
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=4 * hidden,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=tokenizer.pad_token_id,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def save(model: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
