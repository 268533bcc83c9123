"""Train on batches of one task each, in an order that depends only on the seed and the epoch."""

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
    """Draws batches of indices into the concatenated training sets of the tasks.

    An epoch has as many batches as the tasks have together. Without a temperature, it has every batch of every task,
    in random order (MT-DNN's Algorithm 1). With one, the task of each batch is drawn by its probability, and a task
    whose rows are used up begins another pass over them.

    Args:
        sizes: training examples of each task.
        batch_size: rows of a batch; the last one of a pass over a task may have fewer.
        mix: shares of the tasks.
        seed: of all draws; the object has no random state, so an epoch is the same after a resume.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, mix: TaskMixing, seed: int) -> None:
        self.sizes, self.batch_size, self.mix, self.seed = tuple(sizes), batch_size, mix, seed
        self.epoch = 0
        # In a resumed epoch, accelerate wraps this in a sampler that skips batches, and sets the epoch of ``.sampler``.
        self.sampler = self

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the next iteration draws."""
        self.epoch = epoch

    def reseeded(self, seed: int) -> TaskBatches:
        """Return batches of the same tasks in another order."""
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
        """Return the task of each batch."""
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
    """Collates a batch of one task's rows with that task's collator, and adds the task's index.

    Args:
        collators: of each task, by its index.
    """

    collators: Sequence[Callable[[list[dict[str, Any]]], Any]] = field(repr=False)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        task = rows[0][TASK_IDS]
        assert all(row[TASK_IDS] == task for row in rows), "a batch has rows of one task"
        features = [{name: value for name, value in row.items() if name != TASK_IDS} for row in rows]
        return {**self.collators[task](features), TASK_IDS: torch.full((len(rows),), task)}


MEAN = "mean"
"""The metric that selects: the unweighted mean over the tasks of each one's own metric."""
_GOLD = ("labels", "start_positions", "end_positions")


class MultitaskTrainer(RunTrainer):
    """Trains a :class:`~gradgate.training.multitask.model.MultitaskModel` on batches of one task each.

    Batches that are accumulated for one step are weighted by their rows, whatever their tasks.

    Args:
        encoded_tasks: task -> its splits, in the order of the model's tasks.
        batches: draws the training batches.
        options: those of Trainer, without the data and the scorer.
    """

    def __init__(self, *, encoded_tasks: Mapping[str, EncodedSingleTask], batches: TaskBatches, **options: Any) -> None:
        self.encoded_tasks, self.batches = encoded_tasks, batches
        model, tokenizer = options["model"], options["processing_class"]
        self._features = {
            (task, name): _with_task(split.features, index, model.head(task))
            for index, (task, encoded) in enumerate(encoded_tasks.items())
            for name, split in encoded.splits.items()
        }
        super().__init__(
            train_dataset=ConcatDataset([self._features[task, TRAIN] for task in encoded_tasks]),
            eval_dataset=self._features[next(iter(encoded_tasks)), DEV],
            data_collator=TaskCollator([encoded.kind.collator(tokenizer) for encoded in encoded_tasks.values()]),
            **options,
        )

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader of the batches that ``batches`` draws."""
        loader: DataLoader[Any] = DataLoader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)  # type: ignore[no-any-return]

    def score(self, task: str, split: str) -> dict[str, float]:
        """Return the metrics of one split of one task; the task's scorer stores the predictions."""
        encoded, features = self.encoded_tasks[task], self._features[task, split]
        encoded.scorer.split = split
        self.compute_metrics = encoded.scorer
        self.label_names = [name for name in _GOLD if name in features.column_names]
        return dev_scores(self.predict(features, metric_key_prefix="eval").metrics)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score dev of every task: ``eval_mean``, ``eval_loss`` (also a mean), and ``eval_TASK/METRIC`` of each."""
        with self.telling_step():
            dev = {task: self.score(task, DEV) for task in self.encoded_tasks}
        metrics = {
            f"eval_{MEAN}": fmean(dev[task][encoded.metric] for task, encoded in self.encoded_tasks.items()),
            "eval_loss": fmean(scores["loss"] for scores in dev.values()),
            **{f"eval_{task}/{name}": value for task, scores in dev.items() for name, value in scores.items()},
        }
        self.log(metrics)
        self.control: TrainerControl = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def items(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return one item per row."""
        rows: torch.Tensor = batch[TASK_IDS]
        return rows

    def _remove_unused_columns(self, dataset: Dataset, description: str | None = None) -> Dataset:
        return dataset  # _with_task has selected the columns that each head takes


def _with_task(features: Dataset, index: int, head: torch.nn.Module) -> Dataset:
    """Select the columns that a head's model takes, and add the task's index."""
    takes = inspect.signature(head.forward).parameters
    selected = features.select_columns([name for name in features.column_names if name in takes])
    return selected.add_column(TASK_IDS, [index] * len(selected))
