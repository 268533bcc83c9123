"""Weight the loss of each class by how rare it is in train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn import functional

from gradgate.errors import UsageError, some_of
from gradgate.settings.run import RunConfig
from gradgate.tasks import TaskData
from gradgate.tasks.kinds.multi_label import MultiLabel, marks_of
from gradgate.tasks.types import IGNORED

_SHOWN = 20
Weights = Mapping[str, float | Mapping[str, float]]


@dataclass(frozen=True)
class ClassWeights:
    """The weights of a loss, as scikit-learn's ``balanced``: rows / (classes * rows of the class).

    Attributes:
        labels: the classes, in the order of the model's outputs.
        absent, present: the weight of an output that is not a row's label, and of one that is; shape ``(labels,)``,
            float64. Of kinds with one label per row or token, only ``present`` counts, and 1 for a class without rows.
        is_multi_label: whether a row has any number of labels; each label is then weighted as two classes.
    """

    labels: tuple[str, ...]
    absent: np.ndarray[Any, Any]
    present: np.ndarray[Any, Any]
    is_multi_label: bool

    @classmethod
    def balanced(cls, data: TaskData, rows: Dataset) -> ClassWeights:
        """Return the weights for a task's training rows.

        Args:
            data: the task.
            rows: those that a run trains on, as its kind has read them.
        """
        labels = data.labels or ()
        if data.spec.kind == MultiLabel.info.name:
            marks = marks_of(rows["label"][:], len(labels))
            pairs = np.array([_balanced(marks[:, place].astype(int), 2) for place in range(len(labels))])
            return cls(labels, pairs[:, 0], pairs[:, 1], True)
        cells = rows["label"][:]
        found = np.concatenate([np.atleast_1d(cell) for cell in cells]).astype(int)
        weights = _balanced(found, len(labels))
        return cls(labels, np.zeros(len(labels)), weights, False)

    def __str__(self) -> str:
        pairs = list(zip(self.labels, self.present, strict=True))
        return some_of([f"{label} {weight:.3g}" for label, weight in pairs], _SHOWN)

    @property
    def record(self) -> Weights:
        """The weights by label, for ``run.json``."""
        if not self.is_multi_label:
            return dict(zip(self.labels, map(float, self.present), strict=True))
        pairs = zip(self.absent, self.present, strict=True)
        return {
            label: {"absent": float(absent), "present": float(present)}
            for label, (absent, present) in zip(self.labels, pairs, strict=True)
        }

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted loss of a batch, divided by its unweighted number of items.

        A mean over weights, as of ``torch.nn.CrossEntropyLoss``, would cancel them in a batch of one class, and would
        make the loss of accumulated batches depend on how they are divided.

        Args:
            logits: shape ``(rows, labels)``, or ``(rows, sub-words, labels)``.
            labels: class indices, shape ``(rows,)`` or ``(rows, sub-words)`` with -100 for none; of several labels per
                row, 0 and 1, shape ``(rows, labels)``.
        """
        present = torch.tensor(self.present, dtype=torch.float32, device=logits.device)
        if self.is_multi_label:
            absent = torch.tensor(self.absent, dtype=torch.float32, device=logits.device)
            weights = torch.where(labels > 0.5, present, absent)
            return functional.binary_cross_entropy_with_logits(logits.float(), labels.float(), weight=weights)
        flat, marks = logits.float().reshape(-1, logits.shape[-1]), labels.reshape(-1)
        total = functional.cross_entropy(flat, marks, weight=present, ignore_index=IGNORED, reduction="sum")
        return total / (marks != IGNORED).sum()


def _balanced(found: np.ndarray[Any, Any], classes: int) -> np.ndarray[Any, Any]:
    """Return scikit-learn's weight of each class; 1 for one without rows."""
    there = np.unique(found)
    weights = np.ones(classes)
    weights[there] = compute_class_weight("balanced", classes=there, y=found)
    return weights


def check_classes(config: RunConfig, data: TaskData) -> None:
    """Raise UsageError if class weights are set for a task without classes."""
    if config.class_weights is not None and data.labels is None:
        raise UsageError(
            f"class_weights={config.class_weights!r} weights the loss of classes, but {data.spec.name} is "
            f"{data.spec.kind}, which has none. Leave it out."
        )
