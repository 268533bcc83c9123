"""Time an epoch with nine of twelve layers closed, with and without the activation cache, over padded batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import Figure, Goal
from benchmarks.gpu.models import encoder
from benchmarks.gpu.timing import seconds

BATCH, EPOCHS = 32, 3


def cases(bench: Bench) -> list[Case]:
    """Return the one case."""
    return [Case("epochs", _epochs)]


def _epochs(bench: Bench) -> Iterator[Figure]:
    closed = 2 if bench.dry else 9
    batches = list(_batches(bench))
    notes: list[str] = []
    with TemporaryDirectory() as folder:
        cache = gg.ActivationCache(folder=Path(folder), note=notes.append)
        plain, losses, _ = _trained(bench, f"freeze:layers={closed}", batches, None)
        cached, others, rows = _trained(bench, f"freeze:layers={closed}", batches, cache)
    count = sum(len(batch["labels"]) for batch in batches)
    refused = "; ".join(notes)
    yield Figure(f"epoch with {closed} layers closed", plain[-1], "s")
    yield Figure("first epoch with the cache, which fills it, over without", cached[0] / plain[-1], "x")
    yield Figure("later epoch with the cache over without", cached[-1] / plain[-1], "x")
    read = Goal("exactly", (EPOCHS - 1) * count, always=True)
    yield Figure("rows read from the cache", rows, "rows", read, refused)
    largest = max(abs(one - other) for one, other in zip(losses, others, strict=True))
    yield Figure("largest difference of a loss", largest, "", Goal("at most", 1e-2, always=True))


def _batches(bench: Bench) -> Iterator[dict[str, Tensor]]:
    """Yield batches of rows of different lengths."""
    draw = torch.Generator().manual_seed(0)
    longest, words, rows = (16, 512, 4) if bench.dry else (128, 30522, BATCH)
    for _ in range(2 if bench.dry else 16):
        lengths = torch.randint(longest // 4, longest + 1, (rows, 1), generator=draw)
        mask = (torch.arange(longest) < lengths).long()
        ids = torch.randint(5, words, (rows, longest), generator=draw) * mask
        labels = torch.randint(0, 2, (rows,), generator=draw)
        batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        yield {name: value.to(bench.device) for name, value in batch.items()}


def _trained(
    bench: Bench, method: str, batches: list[dict[str, Tensor]], cache: gg.ActivationCache | None
) -> tuple[list[float], list[float], int]:
    """Return the seconds of each epoch, the losses, and how many rows were read from the cache."""
    model = encoder(bench)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    steps, losses = len(batches), list[Tensor]()

    def epoch() -> None:
        for batch in batches:
            torch.manual_seed(len(losses))
            loss: Any = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())

    length = {"total_steps": EPOCHS * steps, "steps_per_epoch": steps}
    with gg.Tuner(model, optimizer, method, activation_cache=cache, **length) as tuner:
        times = [seconds(bench, partial(epoch)) for _ in range(EPOCHS)]
        read = tuner.cached_rows.read if tuner.cached_rows else 0
    return times, [loss.item() for loss in losses], read
