"""Predict one label for a text or a pair of texts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError
from gradgate.tasks.class_counts import count_notes
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import Examples, Scored, TaskData, make_rows
from gradgate.tasks.kinds.labels import (
    Labelled,
    OneLabel,
    check_labels,
    known_labels,
    label_order,
    labels_of,
    named_labels,
)
from gradgate.tasks.metrics.classes import score_classes
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO, TRAIN

if TYPE_CHECKING:
    from datasets import Dataset


class Classification(OneLabel):
    """Text classification; ``label`` is the index into ``TaskData.labels``."""

    info = KIND_INFO["classification"]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read rows with the indices of their labels.

        Raises:
            DataError: an empty label, one that ``label_map`` does not have, one of dev or test that train does not
                have, or a train split with one label only.
        """
        found = _labelled(spec, tables)
        notes = found.notes
        index = {label: number for number, label in enumerate(found.order)}
        splits = {}
        for split, table in found.tables.items():
            columns, blank = sequence.text_columns(spec, table, split)
            notes += blank
            rows = {**columns, "label": [index[label] for label in found.named[split]]}
            splits[split] = make_rows(rows, {**dict.fromkeys(columns, "string"), "label": found.order})
        return Examples(splits, found.order, tuple(notes))

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every classification metric (``f1`` only for two labels) of logits ``(rows, labels)``."""
        labels = labels_of(data)
        logits = sequence.logits_of(outputs)
        sequence.check_predictions(logits, len(rows), len(labels))
        predicted, gold = logits.argmax(axis=1), sequence.as_array(rows["label"])
        return Scored(
            score_classes(predicted, gold, binary=len(labels) == 2),
            sequence.class_predictions(logits, predicted, gold, labels),
        )


def _labelled(spec: TaskSpec, tables: dict[str, SourceTable]) -> Labelled:
    tables, notes = sequence.scored_tables(spec, tables)
    named, spelled = named_labels(spec, tables)
    notes += spelled
    order = label_order(spec, known_labels(spec, named))
    check_labels(spec, tables, named)
    if spec.metric == "f1" and len(order) != 2:
        raise DataError(
            f"The metric f1 is for two labels, but {spec.name} has {len(order)}; use macro_f1, micro_f1 or weighted_f1"
        )
    notes += count_notes(spec, Counter(named.get(TRAIN, ())))
    return Labelled(tables, named, order, notes)
