"""Handle the labels of a task: names, order, labels missing in train, and a model head for one label per row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError, nearest
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import TaskData
from gradgate.tasks.readers.rows import Table, as_text
from gradgate.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

_MOST_DIGITS = 18  # of labels that are in the order of numbers


def labels_of(data: TaskData) -> tuple[str, ...]:
    """Return the labels of a task that has some."""
    assert data.labels is not None
    return data.labels


def head_of(labels: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a model with one output per label."""
    return {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def label_name(spec: TaskSpec, cell: Any, place: str) -> str:
    """Return the label that a cell means.

    Raises:
        DataError: not a text or number, an empty one, or one that ``label_map`` does not have.
    """
    if not isinstance(cell, (str, bool, int, float)):
        raise DataError(f"{place}: the label is {type(cell).__name__}, expected text or a number")
    if isinstance(cell, float) and not math.isfinite(cell):
        raise DataError(
            f"{place}: the label is {cell}, which stands for a missing number; expected text or a number. Correct "
            "it or remove the row"
        )
    raw = as_text(cell)
    if not raw:
        raise DataError(f"{place}: the label is empty; expected text or a number. Add it or remove the row")
    if not raw.isprintable():
        raise DataError(f"{place}: the label {raw!r:.80} holds a control character; expected a word. Correct the label")
    names = spec.label_map
    if names is None:
        return raw
    if raw in names:
        return names[raw]
    if raw not in names.values():
        raise DataError(
            f"{place}: {raw!r} is not in label_map, which has {listed({**names, **_same(names)})}. Correct the "
            f"label or label_map"
        )
    return raw


def label_names(spec: TaskSpec, table: Table) -> list[str]:
    """Return the label of each row; raise DataError as ``label_name`` does."""
    cells = table.column(spec.label_column, "label=")
    return [label_name(spec, cell, table.place(row)) for row, cell in enumerate(cells)]


def label_order(spec: TaskSpec, in_train: Iterable[str]) -> tuple[str, ...]:
    """Order labels as in ``label_map``; else by number if every label is a whole number, else by code point."""
    if spec.label_map is not None:
        return tuple(dict.fromkeys(spec.label_map.values()))
    labels = set(in_train)
    if all(label.removeprefix("-").isdecimal() and len(label) <= _MOST_DIGITS for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def known_labels(spec: TaskSpec, named: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the labels of train; without it, when a trained model is scored, those that ``label_map`` names."""
    return set(named["train"]) if "train" in named else set((spec.label_map or {}).values())


def unknown_label(split: str, name: str, place: str, known: Iterable[str]) -> DataError:
    """Build the error for a label that train does not have."""
    known = sorted(known)
    return DataError(
        f"{place}: the {split} split has the label {name!r}, which train does not have; train's labels are "
        f"{listed(known)}.{nearest(name, known)} Correct the label, remove the row, or add such rows to train"
    )


def check_labels(spec: TaskSpec, tables: Mapping[str, Table], named: Mapping[str, Sequence[str]]) -> None:
    """Refuse a train split with only one label, and labels of other splits that train does not have."""
    known = known_labels(spec, named)
    if not known and "train" not in named:
        return
    if len(known) < 2:
        raise DataError(
            f"Every row of {tables['train'].source} has the label {named['train'][0]!r}; "
            f"{spec.kind} needs two labels or more. Is label= right?"
        )
    for split, names in named.items():
        for row, name in enumerate(names):
            if name not in known:
                raise unknown_label(split, name, tables[split].place(row), known)


@dataclass(frozen=True)
class Labelled:
    """The splits that can be scored, the label of each of their rows, and all labels in the order of the outputs."""

    tables: dict[str, Table]
    named: dict[str, list[str]]
    order: tuple[str, ...]
    notes: list[str]


def listed(labels: Iterable[str]) -> str:
    """Format labels for a message, the first twenty of many."""
    words = [repr(label) for label in labels]
    return ", ".join(words[:20]) + (f" and {len(words) - 20} more" if len(words) > 20 else "")


def _same(names: Mapping[str, str]) -> dict[str, str]:
    return {name: name for name in names.values()}


class OneLabel:
    """The head, and the features that it takes."""

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification  # type: ignore[no-any-return]

    def num_outputs(self, data: TaskData) -> int:
        return len(labels_of(data))

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {**head_of(labels_of(data)), "problem_type": "single_label_classification"}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        return sequence.encode(dataset, tokenizer, max_length, "int64")

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return sequence.collator(tokenizer)  # type: ignore[no-any-return]
