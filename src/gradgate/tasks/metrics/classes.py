"""Compute metrics of class indices with scikit-learn. Degenerate inputs give 0.0 and no warning, never NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[[Array, Array], float]


def score_classes(predicted: Array, labels: Array, *, binary: bool) -> dict[str, float]:
    """Compute every classification metric of class indices, both ``(rows,)``; ``f1`` only if ``binary``."""
    return {name: metric(predicted, labels) for name, metric in FUNCTIONS.items() if binary or name != "f1"}


def accuracy(predicted: Array, labels: Array) -> float:
    """Return the share of rows whose class is right."""
    return float(np.mean(predicted == labels))


def macro_f1(predicted: Array, labels: Array) -> float:
    """Average the F1 of each class among labels or predictions, unweighted; a class never right counts as 0."""
    return _f1(predicted, labels, "macro")


def micro_f1(predicted: Array, labels: Array) -> float:
    """Compute the F1 of all decisions together; with one label per row it equals accuracy."""
    return _f1(predicted, labels, "micro")


def weighted_f1(predicted: Array, labels: Array) -> float:
    """Average the F1 of each class, weighted by its rows."""
    return _f1(predicted, labels, "weighted")


def f1(predicted: Array, labels: Array) -> float:
    """Compute the F1 of the second of two classes (index 1); 0.0 if it is neither present nor predicted."""
    return _f1(predicted, labels, "binary")


def _f1(predicted: Array, labels: Array, average: str) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, average=average, zero_division=0.0))


def matthews(predicted: Array, labels: Array) -> float:
    """Compute the Matthews correlation; 0.0 if labels or predictions are constant."""
    from sklearn.metrics import matthews_corrcoef

    if constant(predicted) or constant(labels):
        return 0.0
    return float(matthews_corrcoef(labels, predicted))


def constant(values: Array) -> bool:
    """Return True if all values are the same."""
    return bool(np.all(values == values[:1]))


FUNCTIONS: dict[str, Function] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "weighted_f1": weighted_f1,
    "f1": f1,
    "matthews": matthews,
}
