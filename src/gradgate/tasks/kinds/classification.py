"""One label for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from datasets import ClassLabel, Dataset, Features, Value

from gradgate.errors import DataError, nearest
from gradgate.tasks import metrics
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import Examples
from gradgate.tasks.table import Table

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gradgate.tasks.data import TaskData
    from gradgate.tasks.spec import TaskSpec


class Classification:
    """Text classification; ``label`` is the index into ``TaskData.labels``."""

    name = "classification"
    metric_names = tuple(metrics.CLASSIFICATION)
    default_metric = "accuracy"

    @property
    def auto_model(self) -> type[Any]:
        from transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification  # type: ignore[no-any-return]

    def read(self, spec: TaskSpec) -> Examples:
        """Rows with their labels' indices.

        Raises:
            DataError: an empty label, one that ``label_map`` does not have, one of dev or test that train does not
                have, or a train split with one label only.
        """
        tables, notes = sequence.scored_tables(spec)
        named = {split: _label_names(spec, table) for split, table in tables.items()}
        labels = _label_order(spec, named["train"])
        _check_labels(spec, tables, named, labels)
        index = {label: number for number, label in enumerate(labels)}
        splits = {}
        for split, table in tables.items():
            columns, blank = sequence.text_columns(spec, table, split)
            notes += blank
            features = Features({**dict.fromkeys(columns, Value("string")), "label": ClassLabel(names=list(labels))})
            rows = {**columns, "label": [index[label] for label in named[split]]}
            splits[split] = Dataset.from_dict(rows, features=features)
        return Examples(splits, labels, tuple(notes))

    def num_outputs(self, data: TaskData) -> int:
        return len(_labels(data))

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        labels = _labels(data)
        return {
            "num_labels": len(labels),
            "id2label": dict(enumerate(labels)),
            "label2id": {label: index for index, label in enumerate(labels)},
            "problem_type": "single_label_classification",
        }

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        return sequence.encode(dataset, tokenizer, max_length, "int64")

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return sequence.collator(tokenizer)  # type: ignore[no-any-return]

    def metrics(
        self, predictions: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], data: TaskData
    ) -> dict[str, float]:
        """Every classification metric (``f1`` for two labels only) of logits ``(rows, labels)``."""
        width = self.num_outputs(data)
        sequence.check_predictions(predictions, labels, width)
        return metrics.score_classes(predictions.argmax(axis=1), labels, binary=width == 2)


def _labels(data: TaskData) -> tuple[str, ...]:
    assert data.labels is not None
    return data.labels


def _label_names(spec: TaskSpec, table: Table) -> list[str]:
    names = []
    known = dict.fromkeys((spec.label_map or {}).values())
    for row, cell in enumerate(table.column(spec.label_column, "--label")):
        if not isinstance(cell, (str, bool, int, float)):
            raise DataError(f"{table.place(row)}: the label is {type(cell).__name__}, expected text or a number")
        raw = sequence.as_text(cell)
        if not raw:
            raise DataError(f"{table.place(row)}: the label is empty")
        name = raw if spec.label_map is None else spec.label_map.get(raw, raw if raw in known else None)
        if name is None:
            accepted = {**(spec.label_map or {}), **known}
            raise DataError(f"{table.place(row)}: {raw!r} is not in label_map, which has {_listed(accepted)}")
        names.append(name)
    return names


def _label_order(spec: TaskSpec, in_train: list[str]) -> tuple[str, ...]:
    """As in ``label_map``; else by number where every label is a whole number, else by code point."""
    if spec.label_map is not None:
        return tuple(dict.fromkeys(spec.label_map.values()))
    labels = set(in_train)
    if all(label.removeprefix("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _check_labels(
    spec: TaskSpec, tables: dict[str, Table], named: dict[str, list[str]], labels: tuple[str, ...]
) -> None:
    known = set(named["train"])
    if len(known) < 2:
        raise DataError(
            f"Every row of {tables['train'].source} has the label {named['train'][0]!r}; "
            "classification needs two labels or more. Is --label right?"
        )
    for split, names in named.items():
        for row, name in enumerate(names):
            if name not in known:
                raise DataError(
                    f"{tables[split].place(row)}: the {split} split has the label {name!r}, which train does not "
                    f"have; train's labels are {_listed(sorted(known))}.{nearest(name, known)} "
                    "Correct the label, remove the row, or add such rows to train"
                )
    if spec.metric == "f1" and len(labels) != 2:
        raise DataError(
            f"The metric f1 is for two labels, and {spec.name} has {len(labels)}; use macro_f1, micro_f1 or weighted_f1"
        )


def _listed(labels: Any) -> str:
    words = [repr(label) for label in labels]
    return ", ".join(words[:20]) + (f" and {len(words) - 20} more" if len(words) > 20 else "")
