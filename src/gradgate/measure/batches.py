"""Draw training batches to measure on, in an order of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from gradgate.measure.request import Batch, Batches


def batches_of(dataloader: Any, seed: int) -> Batches | None:
    """Return batches of a training's data, reshuffled, without touching its sampler or the random state.

    Return None for a stream, which has only one order, for batches of unknown size, and for anything else that is not
    one dataset.
    """
    dataset = getattr(dataloader, "dataset", None)
    if dataset is None or isinstance(dataset, IterableDataset):
        return None
    # A loader with a sampler of batches has no size of its own.
    sizes = (getattr(dataloader, "total_batch_size", None), dataloader.batch_size)
    rows = next(filter(None, sizes), getattr(dataloader.batch_sampler, "batch_size", None))
    if rows is None and not hasattr(dataloader.batch_sampler, "reseeded"):
        return None

    def draw(step: int) -> Iterable[Batch]:
        number = seed * 1_000_003 + step
        reseeded = getattr(dataloader.batch_sampler, "reseeded", None)
        if reseeded is not None:  # batches of one task each
            return DataLoader(dataset, batch_sampler=reseeded(number), collate_fn=dataloader.collate_fn)
        generator = torch.Generator().manual_seed(number)
        return DataLoader(
            dataset,
            batch_size=rows,
            shuffle=True,
            generator=generator,
            collate_fn=dataloader.collate_fn,
        )

    return draw
