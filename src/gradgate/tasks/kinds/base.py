"""What a kind of task must offer: data in, features, model head, metrics and predictions out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from datasets import Dataset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gradgate.tasks.data import TaskData
    from gradgate.tasks.readers.rows import Table
    from gradgate.tasks.spec import TaskSpec


@dataclass(frozen=True)
class Examples:
    """What a kind has read.

    Args:
        splits: split -> rows that can be scored; every one but ``train`` and ``dev`` is a test split.
        labels: names of the outputs in their order, or None where outputs are no classes.
        notes: what the user should know, such as a test split that was left out.
    """

    splits: dict[str, Dataset]
    labels: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """How good the outputs for a split are.

    Args:
        metrics: metric -> value, fractions of one where the metric has a range.
        predictions: JSON objects, one for each row in order, from which the metrics can be computed again: ``gold``
            and ``predicted`` at least.
    """

    metrics: dict[str, float]
    predictions: list[dict[str, Any]]


class Kind(Protocol):
    """One kind of task; stateless."""

    @property
    def name(self) -> str:
        """The word for it in a task's ``kind``."""

    @property
    def columns(self) -> tuple[str | tuple[str, ...], str]:
        """The text column or columns and the label column of a task that names none."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that may select checkpoints."""

    @property
    def default_metric(self) -> str:
        """The metric that selects unless the task names one."""

    @property
    def auto_model(self) -> type[Any]:
        """The ``AutoModelFor...`` class with the fitting head."""

    def read(self, spec: TaskSpec, tables: dict[str, Table]) -> Examples:
        """Check every row of the splits' tables; raises DataError, naming the place of the first fault.

        Without a table ``train``, as where a model that is already trained is scored, the labels are those that
        ``label_map`` names.
        """

    def num_outputs(self, data: TaskData) -> int:
        """The width of the model's head."""

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        """What the model's configuration must say for this data."""

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Features for the model, its labels among them; rows keep their order, each may become several features.

        Columns that the model does not take are for ``score``.
        """

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        """Makes a batch of features, padded to its longest row."""

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Every metric that is defined for the data, and what was predicted.

        Args:
            rows: the split as read.
            features: the same split as ``encode`` made it; a row may have several features.
            outputs: what the model returned for the features, in their order: an array, or a tuple of arrays.
            data: the task.
            split: the split's name.
        """
