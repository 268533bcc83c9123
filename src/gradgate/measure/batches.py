"""Draw training batches to measure on, in an order of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from gradgate.measure.request import Batch, Batches


def batches_of(dataloader: Any, seed: int) -> Batches | None:
    """Return batches of a training's data, reshuffled, without touching its sampler or the random state.

    Return None for a stream, which has only one order, and for anything else that is not one dataset.
    """
    dataset = getattr(dataloader, "dataset", None)
    if dataset is None or isinstance(dataset, IterableDataset):
        return None

    def draw(step: int) -> Iterable[Batch]:
        number = seed * 1_000_003 + step
        reseeded = getattr(dataloader.batch_sampler, "reseeded", None)
        if reseeded is not None:  # batches of one task each
            return DataLoader(dataset, batch_sampler=reseeded(number), collate_fn=dataloader.collate_fn)
        generator = torch.Generator().manual_seed(number)
        return DataLoader(
            dataset,
            batch_size=getattr(dataloader, "total_batch_size", None) or dataloader.batch_size,
            shuffle=True,
            generator=generator,
            collate_fn=dataloader.collate_fn,
        )

    return draw
