"""Count the rows of each class, and say what looks wrong: an id or a date in place of a label, or unequal classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from gradgate.errors import some_of
from gradgate.tasks.columns import is_date
from gradgate.tasks.spec import TaskSpec

UNEQUAL = 5
"""Classes are unequal if the largest has this many times the rows of the smallest, or more."""
OTHER_LABEL = "Name the column of the labels with label=, or pass kind='regression' if the values are scores"
_LEAST_ROWS = 20  # fewer say nothing about their labels
_SHOWN = 20


def looks_like_ids(values: int, rows: int) -> bool:
    """Return True if this number of different labels in these rows are names of rows rather than classes."""
    return rows >= _LEAST_ROWS and 2 * values > rows


def in_numbers(column: str, values: int, rows: int) -> str:
    """Return a sentence on a column that may be an id."""
    return f"{column!r} has {values:,} values in {rows:,} rows: an id?"


def count_notes(spec: TaskSpec, counts: Mapping[str, int]) -> list[str]:
    """Return what to say of the labels of train before a model is trained on them.

    Args:
        spec: the task.
        counts: label -> rows of train.
    """
    rows, values = sum(counts.values()), len(counts)
    column = spec.label_column
    if looks_like_ids(values, rows):
        return [f"{in_numbers(column, values, rows)} Most labels have one row; name another column with label="]
    if counts and all(map(is_date, counts)):
        return [
            f"{column!r} has {values:,} values in {rows:,} rows, and all are dates: each becomes a class of its "
            f"own; name another column with label="
        ]
    return [*_no_class_notes(counts), *_spelling_notes(counts), *unequal_notes(spec, counts)]


def _no_class_notes(counts: Mapping[str, int]) -> list[str]:
    """Return a note on -1 next to the numbers of classes, as data sets of the hub mark rows without a label."""
    last = len(counts) - 2
    if last < 1 or set(counts) != {str(number) for number in range(-1, last + 1)}:
        return []
    return [
        f"{counts['-1']:,} of {sum(counts.values()):,} rows of train have the label -1, which counts as a class, as "
        f"0 to {last} do: if it marks rows without a label, remove them"
    ]


def _spelling_notes(counts: Mapping[str, int]) -> list[str]:
    """Return notes on labels that may be another one, misspelt."""
    alike: dict[str, list[str]] = {}
    for label in counts:
        alike.setdefault(" ".join(re.split(r"[\s_-]+", label.casefold())), []).append(label)
    shown = [
        ", ".join(f"{name!r} ({counts[name]:,} rows)" for name in sorted(own)) for own in alike.values() if own[1:]
    ]
    notes = [
        f"the labels {labels} differ only in case or spaces, but count as separate classes: correct them if they "
        f"mean the same"
        for labels in shown
    ]
    once = sorted(label for label, count in counts.items() if count == 1)
    if once and sum(counts.values()) >= _LEAST_ROWS and 2 * len(once) <= len(counts) and not notes:
        which = "the label" if len(once) == 1 else "each of the labels"
        notes.append(f"only one row of train has {which} {', '.join(map(repr, once[:_SHOWN]))}: misspelt?")
    return notes


def unequal_notes(spec: TaskSpec, counts: Mapping[str, int]) -> list[str]:
    """Return a note if accuracy selects a model of unequal classes."""
    ordered = Counter(counts).most_common()
    if spec.metric != "accuracy" or len(ordered) < 2 or ordered[0][1] < UNEQUAL * ordered[-1][1]:
        return []
    largest, share = ordered[0][0], ordered[0][1] / sum(counts.values())
    return [
        f"the classes are imbalanced ({listed_counts(counts)}): always predicting {largest!r} has an accuracy of "
        f"{share:.1%}. metric='macro_f1' weights all classes equally, and class_weights='balanced' weights the loss"
    ]


def listed_counts(counts: Mapping[str, int]) -> str:
    """Format classes with their rows, the largest first: ``ham 420, spam 30``."""
    return some_of([f"{label} {count:,}" for label, count in Counter(counts).most_common()], _SHOWN)
