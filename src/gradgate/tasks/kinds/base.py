"""Define what a kind of task must offer: data in; features, model head, metrics and predictions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import ORIGINAL_DEV, KindInfo

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

PLACE = "place"
"""The column with a row's place in its source, for kinds whose rows may be invalid for some tokenizers only."""

CellType = str | tuple[str, ...] | list[Any]
"""``"string"`` and other types of Arrow, the names of classes in order, or a list of one of these: ``["int32"]``."""


@dataclass(frozen=True)
class Examples:
    """The rows that a kind has read.

    Args:
        splits: split -> rows that can be scored; every one but ``train`` and ``dev`` is a test split.
        labels: names of the outputs in their order, or None if outputs are not classes.
        notes: what the user should know, such as a test split that was left out.
    """

    splits: dict[str, Dataset]
    labels: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """The quality of the outputs for a split.

    Args:
        metrics: metric -> value, a fraction of one if the metric has a range.
        predictions: JSON objects, one per row in order, from which the metrics can be computed again: at least ``gold``
            and ``predicted``.
    """

    metrics: dict[str, float]
    predictions: list[dict[str, Any]]


@dataclass(frozen=True)
class TaskData:
    """The data that a run trains and is scored on.

    Args:
        spec: the task.
        train, dev: rows with the columns that the task's kind gives them; ``dev`` is empty if each run draws its own
            from ``train`` (:mod:`gradgate.tasks.held_out`).
        tests: test split -> rows; empty if no test split has labels.
        labels: the outputs' names in their order; None if they are not classes.
        fingerprint: SHA-256 (hex) of every row and of the labels, whatever file or hub they came from.
        rows: split -> number of rows.
        notes: what the user should know: splits left out, blank texts.
        division: how rows of one file became train, dev and test; None if each has its own file.
        may_lack_answers: whether the model learned from questions without an answer; None to look at the rows.
    """

    spec: TaskSpec
    train: Dataset
    dev: Dataset
    tests: dict[str, Dataset]
    labels: tuple[str, ...] | None
    fingerprint: str
    rows: dict[str, int]
    notes: tuple[str, ...] = ()
    division: str | None = None
    may_lack_answers: bool | None = None

    @property
    def languages(self) -> dict[str, str]:
        """Split -> language, for a task in several languages; else empty.

        ``original_dev`` has none: its language has a test split.
        """
        splits = [split for split in self.rows if split != ORIGINAL_DEV] if self.spec.languages else []
        return {split: self.spec.language_of(split) for split in splits}

    @property
    def train_counts(self) -> dict[str, int] | None:
        """Label -> rows of train, or tokens, that have it; None if the outputs are not classes, or without train."""
        if self.labels is None or "label" not in self.train.column_names:
            return None
        counts: Counter[int] = Counter()
        for batch in self.train.select_columns(["label"]).iter(batch_size=10_000):
            cells = batch["label"]
            counts.update(chain.from_iterable(cells) if isinstance(cells[0], list) else cells)
        return {label: counts[number] for number, label in enumerate(self.labels)}


class Kind(Protocol):
    """One kind of task; stateless."""

    @property
    def info(self) -> KindInfo:
        """The name of the kind, its columns and metrics."""

    @property
    def auto_model(self) -> type[Any]:
        """The ``AutoModelFor...`` class with the fitting head."""

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Check every row of the splits' tables; raise DataError, naming the place of the first fault.

        Without a table ``train``, as when a trained model is scored, the labels are those that ``label_map`` names.
        """

    def num_outputs(self, data: TaskData) -> int:
        """Return the width of the model's head."""

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        """Return the entries that the model's configuration needs for this data."""

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Build features for the model, with labels; rows keep their order, and each may become several features.

        Columns that the model does not take are for ``score``.
        """

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        """Return a function that batches features, padded to the longest row."""

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every metric that is defined for the data, and the predictions.

        Args:
            rows: the split as read.
            features: the same split as ``encode`` made it; a row may have several features.
            outputs: what the model returned for the features, in their order: an array, or a tuple of arrays.
            data: the task.
            split: the split's name.
        """


def make_rows(columns: Mapping[str, Sequence[Any]], types: Mapping[str, CellType]) -> Dataset:
    """Build a data set of these columns, each of its type; classes are given by their numbers."""
    import pyarrow as pa
    from datasets import ClassLabel, Dataset, Features, List, Value

    def feature(kind: CellType) -> Any:
        if isinstance(kind, list):
            return List(feature(kind[0]))
        return Value(kind) if isinstance(kind, str) else ClassLabel(names=list(kind))

    features = Features({name: feature(kind) for name, kind in types.items()})
    if not types:
        return Dataset.from_dict({}, features=features)
    # Dataset.from_dict encodes classes one by one, which takes minutes for a million rows
    return Dataset(pa.Table.from_pydict({name: columns[name] for name in types}, schema=features.arrow_schema))


def tokenize_rows(dataset: Dataset, tokenize: Callable[..., Mapping[str, Any]], **options: Any) -> Dataset:
    """Return the columns that ``tokenize`` makes of the rows, without the rows' own.

    ``options`` are those of ``datasets.Dataset.map``, such as ``batched=True``.
    """
    # Nothing of this is cached on disk, so no fingerprint is needed; to hash a tokenizer takes longer than to use it.
    return dataset.map(
        tokenize, remove_columns=dataset.column_names, desc="tokenize", new_fingerprint="tokenized", **options
    )
