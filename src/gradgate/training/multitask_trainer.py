"""Hugging Face's Trainer for several tasks at once."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import ConcatDataset, DataLoader
from transformers import TrainerControl

from gradgate.training.callbacks import dev_scores
from gradgate.training.one_task import TRAIN, TaskLesson
from gradgate.training.scoring import DEV
from gradgate.training.task_batches import TASK_IDS, TaskBatches, TaskCollator
from gradgate.training.trainer import RunTrainer

MEAN = "mean"
"""The metric that selects: the unweighted mean over the tasks of each one's own metric."""
_GOLD = ("labels", "start_positions", "end_positions")


class MultiTaskTrainer(RunTrainer):
    """Trains a :class:`~gradgate.training.multitask_model.MultiTaskModel` on batches of one task each.

    Batches that are accumulated for one step count by their rows, whatever their tasks.

    Args:
        lessons: task -> its splits, in the order of the model's tasks.
        batches: draws the training batches.
        options: as of Trainer, but for the data and what scores them.
    """

    def __init__(self, *, lessons: Mapping[str, TaskLesson], batches: TaskBatches, **options: Any) -> None:
        self.lessons, self.batches = lessons, batches
        model, tokenizer = options["model"], options["processing_class"]
        self._features = {
            (task, split): _with_task(held.features, index, model.head(task))
            for index, (task, lesson) in enumerate(lessons.items())
            for split, held in lesson.splits.items()
        }
        super().__init__(
            train_dataset=ConcatDataset([self._features[task, TRAIN] for task in lessons]),
            eval_dataset=self._features[next(iter(lessons)), DEV],
            data_collator=TaskCollator([lesson.kind.collator(tokenizer) for lesson in lessons.values()]),
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
        lesson, features = self.lessons[task], self._features[task, split]
        lesson.scorer.split = split
        self.compute_metrics = lesson.scorer
        self.label_names = [name for name in _GOLD if name in features.column_names]
        return dev_scores(self.predict(features, metric_key_prefix="eval").metrics)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score dev of every task: ``eval_mean``, ``eval_loss`` (also a mean), and ``eval_TASK/METRIC`` of each."""
        with self.telling_step():
            found = {task: self.score(task, DEV) for task in self.lessons}
        metrics = {
            f"eval_{MEAN}": fmean(found[task][lesson.metric] for task, lesson in self.lessons.items()),
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
    """The columns that a head's model takes, and whose they are."""
    takes = inspect.signature(head.forward).parameters
    kept = features.select_columns([name for name in features.column_names if name in takes])
    return kept.add_column(TASK_IDS, [index] * len(kept))
