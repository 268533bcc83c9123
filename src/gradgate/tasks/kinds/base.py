"""What a kind of task must offer: data in, features, model head, metric out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from datasets import Dataset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gradgate.tasks.data import TaskData
    from gradgate.tasks.spec import TaskSpec


@dataclass(frozen=True)
class Examples:
    """What a kind has read.

    Args:
        splits: split -> rows that can be scored; always ``train`` and ``dev``, every other one is a test split.
        labels: names of the outputs in their order, or None where outputs are no classes.
        notes: what the user should know, such as a test split that was left out.
    """

    splits: dict[str, Dataset]
    labels: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


class Kind(Protocol):
    """One kind of task; stateless."""

    @property
    def name(self) -> str:
        """The word for it in a task's ``kind``."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that may select checkpoints."""

    @property
    def default_metric(self) -> str:
        """The metric that selects unless the task names one."""

    @property
    def auto_model(self) -> type[Any]:
        """The ``AutoModelFor...`` class with the fitting head."""

    def read(self, spec: TaskSpec) -> Examples:
        """Read and check every row of the task; raises DataError, naming the place of the first fault."""

    def num_outputs(self, data: TaskData) -> int:
        """The width of the model's head."""

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        """What the model's configuration must say for this data."""

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Features for the model, ``labels`` among them; rows keep their order."""

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        """Makes a batch of features, padded to its longest row."""

    def metrics(
        self, predictions: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], data: TaskData
    ) -> dict[str, float]:
        """Every metric that is defined for the data, from the model's outputs and the labels of ``encode``."""
