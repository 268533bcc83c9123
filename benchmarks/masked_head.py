"""Time a step of a language adapter on masked words: the head on all tokens against the head on masked tokens only.

The first model has the layers and the vocabulary of MiniLM-L6, the second those of XLM-R-base; weights are random.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM

from benchmarks.timing import medians, rows
from gradgate import adapters
from gradgate.tasks.types import IGNORED
from gradgate.training.masked.head import head_on_chosen

ROWS, TOKENS, SHARE = 8, 128, 0.15
MODELS = {"6 layers of 384, 30,522 word pieces": (6, 384, 30_522), "12 layers of 768, 250,002": (12, 768, 250_002)}


def run(rounds: int = 5) -> list[str]:
    """Return one line per rival and model, and the memory of the logits."""
    lines: list[str] = []
    for name, (layers, width, vocabulary) in MODELS.items():
        model = with_adapter(layers, width, vocabulary)
        batch = masked(vocabulary)
        chosen = copy.deepcopy(model)
        assert head_on_chosen(chosen)
        rivals = {"all tokens": partial(step, model, batch), "chosen tokens": partial(step, chosen, batch)}
        times = medians(rivals, rounds)
        count = int((batch["labels"] != IGNORED).sum())
        size = 4 * vocabulary / 2**20
        lines += rows(f"{name}; {ROWS} rows of {TOKENS} tokens, {count} of them to be filled in", times)
        lines.append(f"  the logits take {count * size:.0f} MiB in place of {ROWS * TOKENS * size:.0f} MiB")
    return lines


def with_adapter(layers: int, width: int, vocabulary: int) -> Any:
    """Build a masked language model in training mode of which an adapter learns and the rest is frozen."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=4 * width,
    )
    model = BertForMaskedLM(config).train()
    model.requires_grad_(False)
    adapters.add(model, "sw", "pfeiffer+inv:reduction=2")
    adapters.activate(model, "sw", inverse=True)
    return model


def masked(vocabulary: int) -> dict[str, torch.Tensor]:
    """Return a batch, the same at every call."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, vocabulary, (ROWS, TOKENS), generator=draw)
    return {"input_ids": ids, "labels": torch.where(torch.rand(ids.shape, generator=draw) < SHARE, ids, IGNORED)}


def step(model: Any, batch: dict[str, torch.Tensor]) -> None:
    """Run a forward and a backward pass."""
    model(**batch).loss.backward()
