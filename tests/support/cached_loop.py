"""Trainings over a small padded data set, with or without the activation cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from gradgate import ActivationCache, Tuner
from gradgate.activation_cache import RowCounts
from support.loop import adamw, build
from support.tiny_models import LABELS, VOCABULARY

ROWS, BATCH = 16, 4
STEPS = ROWS // BATCH


@dataclass
class Training:
    """What one training gave out."""

    model: nn.Module
    losses: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: RowCounts | None = None


def texts(seed: int = 0) -> list[Tensor]:
    """Token ids of 3 to 11 tokens; the last one ends the text."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 12, (ROWS,), generator=draw).tolist()
    found = [torch.randint(4, VOCABULARY, (length,), generator=draw) for length in lengths]
    for ids in found:
        ids[-1] = 2
    return found


def collate(model: PreTrainedModel, rows: list[Tensor], labels: Tensor, *, left: bool = False) -> dict[str, Tensor]:
    """A batch padded to its longest row."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), model.config.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[number, place], mask[number, place] = row, 1
    task = type(model).__name__
    if task.endswith("TokenClassification"):
        labels = torch.where(mask == 1, labels[:, None], -100)
    elif not task.endswith("SequenceClassification"):
        labels = torch.where(mask == 1, ids, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def run(
    name: str | Callable[[], Any],
    method: str,
    folder: Path | None = None,
    *,
    epochs: int = 3,
    accumulate: int = 1,
    seed: int = 0,
    left: bool = False,
    each_step: Callable[[Any, Tuner], None] = lambda model, tuner: None,
    audit: bool | None = None,
    **options: Any,
) -> Training:
    """Train with dropout over shuffled batches; ``folder`` is that of the cache, None for none."""
    model = build(name, dropout=True) if isinstance(name, str) else name()
    done = Training(model)
    cache = ActivationCache(folder=folder, note=done.notes.append, **options) if folder else None
    rows, labels = texts(), torch.randint(LABELS, (ROWS,), generator=torch.Generator().manual_seed(1))
    optimizer = adamw(model, lr=1e-3)
    torch.manual_seed(seed)
    length = STEPS // accumulate
    lengths = {"total_steps": epochs * length, "steps_per_epoch": length}
    with Tuner(model, optimizer, method, **lengths, audit=audit, activation_cache=cache) as tuner:
        for epoch in range(epochs):
            order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(100 * seed + epoch))
            for number, chosen in enumerate(order.split(BATCH)):
                each_step(model, tuner)
                inputs = collate(model, [rows[i] for i in chosen], labels[chosen], left=left)
                loss = model(**inputs).loss
                (loss / accumulate).backward()
                done.losses.append(loss.item())
                if (number + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        done.rows = tuner.cached_rows
    return done


def assert_close(one: Training, other: Training) -> None:
    """Losses and weights are the same to 1e-6."""
    torch.testing.assert_close(torch.tensor(one.losses), torch.tensor(other.losses), rtol=1e-6, atol=1e-6)
    theirs = dict(other.model.named_parameters())
    for name, parameter in one.model.named_parameters():
        # Adam divides by the gradient's size, so that where it is almost zero its rounding counts.
        assert torch.allclose(parameter, theirs[name], rtol=1e-4, atol=5e-5), name
