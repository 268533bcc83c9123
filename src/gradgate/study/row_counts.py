"""Turn stored predictions into what each row adds to a score, so that scores of resampled rows are sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradgate.statistics.multibootstrap import Array, Metric

_RIGHT = ("accuracy",)
_OF_CLASSES = ("macro_f1", "micro_f1", "weighted_f1", "f1", "matthews")
KINDS = ("classification", "multiple-choice", "token-classification", "regression")


def counted_metric(metric: str, kind: str, classes: int) -> Metric | None:
    """Return the score from sums of counts of :func:`row_counts`; None if it is not one of sums over rows.

    Args:
        metric: of the task.
        kind: of the task.
        classes: number of labels.
    """
    if kind == "classification" and metric in _OF_CLASSES and classes:
        return lambda sums: _of_classes(metric, sums.reshape(*sums.shape[:-1], 3, classes))
    if (metric in _RIGHT and kind in KINDS) or (metric == "mse" and kind == "regression"):
        return lambda sums: sums[..., 0] / sums[..., 1]
    return None


def row_counts(rows: Sequence[Mapping[str, Any]], metric: str, labels: Sequence[str]) -> Array:
    """Return what each row adds, ``(rows, counts)``.

    For accuracy the right answers and all of them; for the mean squared error the squared error and 1; for metrics of
    classes, for each class whether the row is right, predicted and labelled as such.

    Args:
        rows: of a prediction file.
        metric: of the task.
        labels: of the task.

    Raises:
        ValueError: for a row without ``gold`` or ``predicted``, or with other labels.
    """
    try:
        pairs = [(row["gold"], row["predicted"]) for row in rows]
        if metric in _OF_CLASSES:
            return _class_counts(pairs, labels)
        if metric == "mse":
            return np.array([((gold - found) ** 2, 1.0) for gold, found in pairs], dtype=np.float64)
        return np.array([_right(gold, found) for gold, found in pairs], dtype=np.float64)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"a row has no usable gold or predicted: {error}") from None


def _right(gold: Any, found: Any) -> tuple[float, float]:
    if not isinstance(gold, list):
        return float(gold == found), 1.0
    return float(sum(a == b for a, b in zip(gold, found, strict=True))), float(len(gold))


def _class_counts(pairs: Sequence[tuple[Any, Any]], labels: Sequence[str]) -> Array:
    place = {label: number for number, label in enumerate(labels)}
    gold, found = (np.array([place[pair[side]] for pair in pairs], dtype=np.intp) for side in (0, 1))
    every, counts = np.arange(len(pairs)), np.zeros((len(pairs), 3, len(labels)))
    counts[every, 0, gold] = gold == found
    counts[every, 1, found] = 1.0
    counts[every, 2, gold] = 1.0
    return counts.reshape(len(pairs), -1)


def _of_classes(metric: str, sums: Array) -> Array:
    """Return a score from right, predicted and labelled rows of each class, ``(…, 3, classes)``."""
    right, found, gold = (sums[..., place, :] for place in range(3))
    total = gold.sum(axis=-1)
    if metric == "micro_f1":
        return np.asarray(right.sum(axis=-1) / total)
    if metric == "matthews":
        across = right.sum(axis=-1) * total - (found * gold).sum(axis=-1)
        spread = (total**2 - (found**2).sum(axis=-1)) * (total**2 - (gold**2).sum(axis=-1))
        return np.asarray(np.divide(across, np.sqrt(spread), out=np.zeros_like(across), where=spread > 0))
    there = found + gold
    scores = np.divide(2 * right, there, out=np.zeros_like(right), where=there > 0)
    if metric == "f1":
        return np.asarray(scores[..., 1])
    if metric == "weighted_f1":
        return np.asarray((scores * gold).sum(axis=-1) / total)
    return np.asarray(scores.sum(axis=-1) / (there > 0).sum(axis=-1))
