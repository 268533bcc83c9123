"""Batches of one task each, in an order that is a function of the seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from gradgate.mix import Mix

TASK_IDS = "task_ids"
"""The name of a batch's tensor that says whose batch it is: int64, shape ``(rows,)``, the task's index in each."""
_ORDER, _CHOICE, _ROWS = range(3)


class TaskBatches(Sampler[list[int]]):
    """Draws batches of indices into the tasks' training sets laid end to end.

    An epoch has as many batches as the tasks have together. By size, it is every batch of every task, in random order
    (MT-DNN's Algorithm 1). With a temperature, the task of each batch is drawn by its probability, and a task whose
    rows are used up begins another pass over them.

    Args:
        sizes: training examples of each task.
        batch_size: rows of a batch; the last one of a pass over a task may have fewer.
        mix: shares of the tasks.
        seed: of everything drawn; no generator is kept, so an epoch is the same after a resume.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, mix: Mix, seed: int) -> None:
        self.sizes, self.batch_size, self.mix, self.seed = tuple(sizes), batch_size, mix, seed
        self.epoch = 0
        # The loader of a resumed epoch wraps this in one that skips, and sets the epoch of what it finds in there.
        self.sampler = self

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration draws."""
        self.epoch = epoch

    def reseeded(self, seed: int) -> TaskBatches:
        """Batches of the same tasks in another order."""
        return TaskBatches(self.sizes, self.batch_size, self.mix, seed)

    @property
    def counts(self) -> list[int]:
        """Batches in one pass over each task."""
        return [-(-size // self.batch_size) for size in self.sizes]

    def __len__(self) -> int:
        return sum(self.counts)

    def __iter__(self) -> Iterator[list[int]]:
        starts = np.cumsum([0, *self.sizes]).tolist()
        passes = [self._passes(task, self.epoch) for task in range(len(self.sizes))]
        for task in self._tasks(self.epoch):
            yield [starts[task] + row for row in next(passes[task])]

    def _tasks(self, epoch: int) -> list[int]:
        """The task of each batch."""
        counts = self.counts
        if self.mix.temperature is None:
            every = np.repeat(np.arange(len(counts)), counts)
            return list(self._draws(_ORDER, epoch).permutation(every).tolist())
        shares = self.mix.probabilities(self.sizes)
        return list(self._draws(_CHOICE, epoch).choice(len(counts), size=sum(counts), p=shares).tolist())

    def _passes(self, task: int, epoch: int) -> Iterator[list[int]]:
        number = 0
        while True:
            rows = self._draws(_ROWS, epoch, task, number).permutation(self.sizes[task]).tolist()
            yield from (rows[at : at + self.batch_size] for at in range(0, len(rows), self.batch_size))
            number += 1

    def _draws(self, *what: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *what])


@dataclass(frozen=True)
class TaskCollator:
    """Makes a batch of one task's rows as that task's kind does, and says whose it is.

    Args:
        collators: of each task, by its index.
    """

    collators: Sequence[Callable[[list[dict[str, Any]]], Any]] = field(repr=False)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        task = rows[0][TASK_IDS]
        assert all(row[TASK_IDS] == task for row in rows), "a batch is of one task"
        own = [{name: value for name, value in row.items() if name != TASK_IDS} for row in rows]
        return {**self.collators[task](own), TASK_IDS: torch.full((len(rows),), task)}
