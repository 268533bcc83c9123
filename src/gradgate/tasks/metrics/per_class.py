"""Compute precision, recall, F1 and rows of each class with scikit-learn, and which classes are mistaken for which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KINDS = ("classification", "token-classification", "multi-label")
"""The kinds of task whose predictions are labels."""
_MOST = 100
"""Labels up to which confusions are counted: beyond, the table has more cells than a page or a record should."""


@dataclass(frozen=True)
class ClassScore:
    """The scores of one class; ``support`` is its number of rows, or of tokens."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ClassScores:
    """The scores of each class on one split.

    Attributes:
        scores: one per class, in the order of the model's outputs. A class that is never predicted has a precision of
            0, and one without rows a recall of 0.
        confusion: the number of rows by their label (first axis) and by what is predicted, in the same order; None if
            rows have several labels, or for more than 100 classes.
    """

    scores: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...] | None = None


def score_each_class(kind: str, labels: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> ClassScores | None:
    """Compute the scores of each class from the predictions of a split.

    Args:
        kind: of the task.
        labels: the classes in their order.
        rows: as in a prediction file, with ``gold`` and ``predicted``.

    Returns:
        None for a kind whose predictions are not labels, or without rows.

    Raises:
        ValueError: rows without ``gold`` or ``predicted``, or with other labels.
    """
    pairs: list[tuple[Any, Any]] = [(row.get("gold"), row.get("predicted")) for row in rows]
    if kind not in KINDS or not pairs:
        return None
    place = {label: number for number, label in enumerate(labels)}
    try:
        if kind == "multi-label":
            return _of_sets([_marks(own, place) for own, _ in pairs], [_marks(own, place) for _, own in pairs], labels)
        if kind == "token-classification":
            pairs = [tags for gold, found in pairs for tags in zip(gold, found, strict=True)]
        gold, predicted = ([place[name] for name in side] for side in zip(*pairs, strict=True))
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected 'gold' and 'predicted' with the labels of the task; {error} is not one") from None
    return _of_classes(gold, predicted, labels)


def _marks(own: Any, place: Mapping[str, int]) -> list[int]:
    marks = [0] * len(place)
    for label in own:
        marks[place[label]] = 1
    return marks


def _of_classes(gold: list[int], predicted: list[int], labels: Sequence[str]) -> ClassScores:
    from sklearn.metrics import confusion_matrix

    numbers = list(range(len(labels)))
    counts = confusion_matrix(gold, predicted, labels=numbers).tolist() if len(labels) <= _MOST else None
    confusion = None if counts is None else tuple(map(tuple, counts))
    return ClassScores(_scores(gold, predicted, labels), confusion)


def _of_sets(gold: list[list[int]], predicted: list[list[int]], labels: Sequence[str]) -> ClassScores:
    import numpy as np

    return ClassScores(_scores(np.array(gold), np.array(predicted), labels))


def _scores(gold: Any, predicted: Any, labels: Sequence[str]) -> tuple[ClassScore, ...]:
    from sklearn.metrics import precision_recall_fscore_support

    found = precision_recall_fscore_support(gold, predicted, labels=list(range(len(labels))), zero_division=0.0)
    columns = zip(*(values.tolist() for values in found), strict=True)
    return tuple(ClassScore(label, *values) for label, values in zip(labels, columns, strict=True))
