"""Predict any number of labels for a text or a pair of texts, each by a probability of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradgate.errors import DataError
from gradgate.tasks.kinds import sequence
from gradgate.tasks.kinds.base import Examples, Scored, TaskData, make_rows
from gradgate.tasks.kinds.labels import (
    LabelNames,
    OneLabel,
    head_of,
    known_labels,
    label_order,
    label_word,
    labels_of,
    spelling_notes,
    unknown_label,
)
from gradgate.tasks.metrics.label_sets import score_label_sets
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.several_labels import with_label_lists
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO, TRAIN, MultiLabelOptions

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

Array = np.ndarray[Any, Any]


class MultiLabel(OneLabel):
    """Several labels per text, or none; ``label`` is a list of indices into ``TaskData.labels``.

    The loss is the binary cross-entropy of each label, and a label is predicted if its probability reaches the
    task's ``threshold``.
    """

    info = KIND_INFO["multi-label"]

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read rows with the indices of their labels.

        Raises:
            DataError: a cell that holds no labels, a label that ``label_map`` does not have, one of dev or test that
                train does not have, or fewer than two labels in train.
        """
        tables, named, order, notes = _labelled(spec, tables)
        index = {label: number for number, label in enumerate(order)}
        splits = {}
        for split, table in tables.items():
            columns, blank = sequence.text_columns(spec, table, split)
            notes += blank
            rows = {**columns, "label": [sorted(index[label] for label in own) for own in named[split]]}
            splits[split] = make_rows(rows, {**dict.fromkeys(columns, "string"), "label": [order]})
        return Examples(splits, order, tuple(notes))

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {**head_of(labels_of(data)), "problem_type": "multi_label_classification"}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Encode texts with ``labels``, 1 for each label of a row and 0 for the others."""
        width = dataset.features["label"].feature.num_classes
        return sequence.encode(dataset, tokenizer, max_length, lambda cells: marks_of(cells, width))

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        return sequence.collator(tokenizer)  # type: ignore[no-any-return]

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every metric of logits ``(rows, labels)``, at the task's threshold."""
        labels = labels_of(data)
        assert isinstance(data.spec.options, MultiLabelOptions)
        logits = sequence.logits_of(outputs)
        sequence.check_predictions(logits, len(rows), len(labels))
        probabilities = sequence.sigmoid(logits)
        predicted = probabilities >= data.spec.options.threshold
        gold = rows["label"][:]
        return Scored(
            score_label_sets(probabilities, predicted.astype(int), marks_of(gold, len(labels)).astype(int)),
            [
                {
                    "index": index,
                    "gold": [labels[number] for number in own],
                    "predicted": [labels[number] for number in np.flatnonzero(found)],
                    "probabilities": {name: round(share, 6) for name, share in zip(labels, shares, strict=True)},
                }
                for index, (own, found, shares) in enumerate(zip(gold, predicted, probabilities.tolist(), strict=True))
            ],
        )


def marks_of(cells: list[list[int]], labels: int) -> Array:
    """Return 1 for each label of a row and 0 for the others; shape ``(rows, labels)``, float32."""
    marks = np.zeros((len(cells), labels), dtype=np.float32)
    for row, own in enumerate(cells):
        marks[row, own] = 1
    return marks


def _labelled(
    spec: TaskSpec, tables: dict[str, SourceTable]
) -> tuple[dict[str, SourceTable], dict[str, list[set[str]]], tuple[str, ...], list[str]]:
    """Return the splits that can be scored, the labels of their rows, all labels in order, and notes."""
    listed, separated = with_label_lists(spec, tables)
    scored, notes = sequence.scored_tables(spec, listed)
    words: dict[str, list[list[str]]] = {}
    for split, table in scored.items():
        cells = table.column(spec.label_column, "label=")
        words[split] = [[label_word(item, table.place(row)) for item in cell] for row, cell in enumerate(cells)]
    flat = {split: [word for own in rows for word in own] for split, rows in words.items()}
    names = LabelNames.of(spec, flat.get(TRAIN, ()))
    named = {
        split: [{names.name(word, scored[split].place(row)) for word in own} for row, own in enumerate(rows)]
        for split, rows in words.items()
    }
    known = known_labels(spec, {split: [label for own in rows for label in own] for split, rows in named.items()})
    _check(spec, scored, named, known)
    notes += [*separated, *spelling_notes(spec, names, (word for own in flat.values() for word in own))]
    notes += _count_notes(spec, named)
    return scored, named, label_order(spec, known), notes


def _check(spec: TaskSpec, tables: dict[str, SourceTable], named: dict[str, list[set[str]]], known: set[str]) -> None:
    """Refuse fewer than two labels in train, and labels of other splits that train does not have."""
    if len(known) < 2 and TRAIN in named:
        found = f"the one label {next(iter(known))!r}" if known else "no labels"
        raise DataError(
            f"The rows of {tables[TRAIN].source} have {found}; multi-label needs two labels or more. Is label= right? "
            "If labels are joined in one text, set `label_separator` in a task.yaml"
        )
    for split, rows in named.items():
        for row, own in enumerate(rows):
            for label in sorted(own - known):
                raise unknown_label(split, label, tables[split].place(row), known)


def _count_notes(spec: TaskSpec, named: dict[str, list[set[str]]]) -> list[str]:
    """Return what to say of the threshold, of rows with no label, and of rows that never have more than one."""
    assert isinstance(spec.options, MultiLabelOptions)
    rows = named.get(TRAIN, [])
    counts = Counter(map(len, rows))
    notes = [f"a label is predicted from a probability of {spec.options.threshold:g}"]
    notes += [f"{counts[0]:,} of {len(rows):,} rows of train have no label"] if counts[0] else []
    if rows and max(counts) < 2:
        notes.append("no row of train has several labels; kind='classification' predicts exactly one")
    return notes
