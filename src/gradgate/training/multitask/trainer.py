"""Batches of one task each, in an order that is a function of the seed and the epoch alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import ConcatDataset, DataLoader, Sampler
from transformers import TrainerControl

from gradgate.runs.records import DEV, TRAIN
from gradgate.tasks.multitask import TaskMixing
from gradgate.training.single_task import EncodedSingleTask
from gradgate.training.trainer import RunTrainer, dev_scores

TASK_IDS = "task_ids"
"""The name of the tensor that holds a batch's task: int64, shape ``(rows,)``, the index of the task in each row."""
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

    def __init__(self, sizes: Sequence[int], batch_size: int, mix: TaskMixing, seed: int) -> None:
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
    """Makes a batch of one task's rows as that task's kind does, with the task's index.

    Args:
        collators: of each task, by its index.
    """

    collators: Sequence[Callable[[list[dict[str, Any]]], Any]] = field(repr=False)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        task = rows[0][TASK_IDS]
        assert all(row[TASK_IDS] == task for row in rows), "a batch is of one task"
        own = [{name: value for name, value in row.items() if name != TASK_IDS} for row in rows]
        return {**self.collators[task](own), TASK_IDS: torch.full((len(rows),), task)}


MEAN = "mean"
"""The metric that selects: the unweighted mean over the tasks of each one's own metric."""
_GOLD = ("labels", "start_positions", "end_positions")


class MultitaskTrainer(RunTrainer):
    """Trains a :class:`~gradgate.training.multitask.model.MultitaskModel` on batches of one task each.

    Batches that are accumulated for one step count by their rows, whatever their tasks.

    Args:
        encoded_tasks: task -> its splits, in the order of the model's tasks.
        batches: draws the training batches.
        options: as of Trainer, but for the data and what scores them.
    """

    def __init__(self, *, encoded_tasks: Mapping[str, EncodedSingleTask], batches: TaskBatches, **options: Any) -> None:
        self.encoded_tasks, self.batches = encoded_tasks, batches
        model, tokenizer = options["model"], options["processing_class"]
        self._features = {
            (task, split): _with_task(held.features, index, model.head(task))
            for index, (task, encoded) in enumerate(encoded_tasks.items())
            for split, held in encoded.splits.items()
        }
        super().__init__(
            train_dataset=ConcatDataset([self._features[task, TRAIN] for task in encoded_tasks]),
            eval_dataset=self._features[next(iter(encoded_tasks)), DEV],
            data_collator=TaskCollator([encoded.kind.collator(tokenizer) for encoded in encoded_tasks.values()]),
            **options,
        )

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches as ``batches`` draws them."""
        loader: DataLoader[Any] = DataLoader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)  # type: ignore[no-any-return]

    def score(self, task: str, split: str) -> dict[str, float]:
        """The metrics of one split of one task; what was predicted is in the task's scorer."""
        encoded, features = self.encoded_tasks[task], self._features[task, split]
        encoded.scorer.split = split
        self.compute_metrics = encoded.scorer
        self.label_names = [name for name in _GOLD if name in features.column_names]
        return dev_scores(self.predict(features, metric_key_prefix="eval").metrics)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score dev of every task: ``eval_mean``, ``eval_loss`` (also a mean), and ``eval_TASK/METRIC`` of each."""
        with self.telling_step():
            found = {task: self.score(task, DEV) for task in self.encoded_tasks}
        metrics = {
            f"eval_{MEAN}": fmean(found[task][encoded.metric] for task, encoded in self.encoded_tasks.items()),
            "eval_loss": fmean(scores["loss"] for scores in found.values()),
            **{f"eval_{task}/{name}": value for task, scores in found.items() for name, value in scores.items()},
        }
        self.log(metrics)
        self.control: TrainerControl = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def items(self, batch: dict[str, Any]) -> torch.Tensor:
        """One for each row."""
        rows: torch.Tensor = batch[TASK_IDS]
        return rows

    def _remove_unused_columns(self, dataset: Dataset, description: str | None = None) -> Dataset:
        return dataset  # each task's features have what its own head takes


def _with_task(features: Dataset, index: int, head: torch.nn.Module) -> Dataset:
    """The columns that a head's model takes, and the task's index."""
    takes = inspect.signature(head.forward).parameters
    kept = features.select_columns([name for name in features.column_names if name in takes])
    return kept.add_column(TASK_IDS, [index] * len(kept))
