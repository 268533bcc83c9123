"""Pretrain the sample's encoder by masked and translation language modelling: ``python -m tools.sample.pretrain``.

Devlin et al. 2019, sec. 3.1, https://arxiv.org/abs/1810.04805; Conneau and Lample 2019, sec. 3.3,
https://arxiv.org/abs/1901.07291.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from gradgate.sample import MODEL
from tools.sample.corpus import PARALLEL, TEXT, Passage, passages
from tools.sample.make_data import sentences
from tools.sample.tokens import MAX_LENGTH, build_tokenizer

if TYPE_CHECKING:
    from torch import Tensor

SEED, VOCABULARY_SEED, HELD_OUT_SEED = 20, 21, 22
PIECES = 6000
BATCH = 64
MASKED = 0.25
WARMUP = 200
_SPECIAL = 5

Encoded = tuple[list[int], int, bool]
"""Token ids of a passage, how many of them are its first text's, and whether the second is a translation."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Pretrain the embedded sample encoder.")
    parser.add_argument("--out", type=Path, default=MODEL, help="folder to write to (default: the package's own)")
    parser.add_argument("--steps", type=int, default=12000, help="optimizer steps (default: 12000)")
    args = parser.parse_args()
    loss = pretrain(args.out, args.steps)
    print(f"loss of held-out masked tokens: {loss:.3f} nats")


def pretrain(out: Path, steps: int, rate: float = 1.5e-3) -> float:
    """Build the vocabulary, train and save; return the loss of masked tokens in nats on held-out passages."""
    avoid = sentences()
    tokenizer = learn_pieces(40_000)
    torch.manual_seed(SEED)
    # Eager attention: the backward pass of the fused one would take half of the time on a CPU.
    model = BertForMaskedLM._from_config(config(len(tokenizer)), attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / WARMUP, (steps - step) / (steps - WARMUP))
    )
    masks = torch.Generator().manual_seed(SEED)
    stream = batches(tokenizer, passages(SEED, avoid))
    for step, batch in enumerate(islice(stream, steps), 1):
        loss = masked_loss(model, tokenizer, batch, masks)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    save(model, tokenizer, out)
    return held_out(model, tokenizer, passages(HELD_OUT_SEED, avoid))


def learn_pieces(count: int) -> PreTrainedTokenizerFast:
    """Train the tokenizer on ``count`` passages, in which all languages have the same share."""
    even = passages(VOCABULARY_SEED, text=dict.fromkeys(TEXT, 1), parallel=dict.fromkeys(PARALLEL, 1))
    return build_tokenizer(chain.from_iterable((one.first, one.second or "") for one in islice(even, count)), PIECES)


def config(vocabulary_size: int) -> BertConfig:
    return BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=160,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=640,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=0,
        # The text never repeats, so dropout would only slow pretraining.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def batches(tokenizer: PreTrainedTokenizerFast, stream: Iterator[Passage]) -> Iterator[list[Encoded]]:
    """Yield batches of passages of about the same length, in an order drawn by the seed."""
    order = random.Random(SEED)
    while True:
        chunk = sorted(encode(tokenizer, list(islice(stream, BATCH * 50))), key=lambda one: len(one[0]))
        groups = [chunk[place : place + BATCH] for place in range(0, len(chunk), BATCH)]
        order.shuffle(groups)
        yield from groups


def encode(tokenizer: PreTrainedTokenizerFast, chunk: Sequence[Passage]) -> list[Encoded]:
    firsts: list[list[int]] = tokenizer([one.first for one in chunk], add_special_tokens=False)["input_ids"]
    seconds: list[list[int]] = tokenizer([one.second or "" for one in chunk], add_special_tokens=False)["input_ids"]
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    made: list[Encoded] = []
    for one, first, second in zip(chunk, firsts, seconds, strict=True):
        ids = [start, *first, end, *([*second, end] if second else [])]
        made.append((ids[:MAX_LENGTH], len(first) + 2, one.translated))
    return made


def masked_loss(model: Any, tokenizer: PreTrainedTokenizerFast, batch: list[Encoded], masks: torch.Generator) -> Tensor:
    """Compute the mean cross-entropy of the masked tokens, in nats.

    The positions of a translation restart, as in Conneau and Lample, so that words of the same meaning have about the
    same position; those of an answer to a question continue, as in fine-tuning.
    """
    longest = max(len(ids) for ids, _, _ in batch)
    ids = torch.tensor([one + [tokenizer.pad_token_id] * (longest - len(one)) for one, _, _ in batch])
    attention = (ids != tokenizer.pad_token_id).long()
    places = torch.arange(longest).expand(len(batch), -1)
    firsts = torch.tensor([first for _, first, _ in batch]).unsqueeze(1)
    second = places >= firsts
    translated = torch.tensor([translated for _, _, translated in batch]).unsqueeze(1)
    noisy, chosen = _mask(ids, tokenizer, masks)
    with torch.autocast("cpu", torch.bfloat16):
        states = model.bert(
            noisy,
            attention_mask=attention,
            token_type_ids=second.long() * attention,
            position_ids=torch.where(translated & second, places - firsts + 1, places),
        ).last_hidden_state
        scores = model.cls(states[chosen])
    return torch.nn.functional.cross_entropy(scores.float(), ids[chosen])


def _mask(ids: Tensor, tokenizer: PreTrainedTokenizerFast, masks: torch.Generator) -> tuple[Tensor, Tensor]:
    """Mask the ids: of the chosen ones 80% become the mask and 10% another piece; also return which are chosen."""
    chosen = (torch.rand(ids.shape, generator=masks) < MASKED) & (ids >= _SPECIAL)
    how = torch.rand(ids.shape, generator=masks)
    noisy = torch.where(chosen & (how < 0.8), tokenizer.mask_token_id, ids)
    drawn = torch.randint(_SPECIAL, len(tokenizer), ids.shape, generator=masks)
    return torch.where(chosen & (how >= 0.9), drawn, noisy), chosen


def held_out(model: Any, tokenizer: PreTrainedTokenizerFast, stream: Iterator[Passage]) -> float:
    masks = torch.Generator().manual_seed(HELD_OUT_SEED)
    with torch.inference_mode():
        losses = [masked_loss(model, tokenizer, batch, masks) for batch in islice(batches(tokenizer, stream), 30)]
    return float(torch.stack(losses).mean())


def save(model: Any, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write the encoder without its language-modelling head: float16 on disk, float32 with dropout once loaded."""
    encoder = model.bert.half()
    encoder.save_pretrained(out)
    encoder.config.dtype = torch.float32
    encoder.config.hidden_dropout_prob = encoder.config.attention_probs_dropout_prob = 0.1
    encoder.config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    model.float()


if __name__ == "__main__":
    main()
