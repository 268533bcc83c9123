"""Metrics as fractions of one, from scikit-learn and scipy. Degenerate inputs give 0.0 and no warning, never NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Metric = Callable[[Array, Array], float]

LOWER_IS_BETTER = frozenset({"mse"})


def greater_is_better(metric: str) -> bool:
    """Whether checkpoints with larger values of this metric are the better ones."""
    return metric not in LOWER_IS_BETTER


def score_classes(predicted: Array, labels: Array, *, binary: bool) -> dict[str, float]:
    """Every classification metric of class indices, both of shape ``(rows,)``; ``f1`` only where ``binary``."""
    return {name: metric(predicted, labels) for name, metric in CLASSIFICATION.items() if binary or name != "f1"}


def score_numbers(predicted: Array, scores: Array) -> dict[str, float]:
    """Every regression metric of numbers, both of shape ``(rows,)``."""
    predicted, scores = predicted.astype(np.float64), scores.astype(np.float64)
    return {name: metric(predicted, scores) for name, metric in REGRESSION.items()}


def accuracy(predicted: Array, labels: Array) -> float:
    """The share of rows whose class is right."""
    return float(np.mean(predicted == labels))


def macro_f1(predicted: Array, labels: Array) -> float:
    """F1 of each class that occurs among labels or predictions, unweighted mean; a class never right counts as 0."""
    return _f1(predicted, labels, "macro")


def micro_f1(predicted: Array, labels: Array) -> float:
    """F1 of all decisions taken together; with one label a row it equals accuracy."""
    return _f1(predicted, labels, "micro")


def weighted_f1(predicted: Array, labels: Array) -> float:
    """F1 of each class, weighted by its rows."""
    return _f1(predicted, labels, "weighted")


def f1(predicted: Array, labels: Array) -> float:
    """F1 of the second of two classes (index 1); 0.0 where it is neither there nor predicted."""
    return _f1(predicted, labels, "binary")


def _f1(predicted: Array, labels: Array, average: str) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, average=average, zero_division=0.0))


def matthews(predicted: Array, labels: Array) -> float:
    """Matthews correlation; 0.0 where labels or predictions are constant."""
    from sklearn.metrics import matthews_corrcoef

    if _constant(predicted) or _constant(labels):
        return 0.0
    return float(matthews_corrcoef(labels, predicted))


def pearson(predicted: Array, scores: Array) -> float:
    """Pearson's r; 0.0 where it is undefined: fewer than two rows, or constant scores or predictions."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, predicted, scores)


def spearman(predicted: Array, scores: Array) -> float:
    """Spearman's rho, ties by mean rank; 0.0 where it is undefined, as for ``pearson``."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, predicted, scores)


def mse(predicted: Array, scores: Array) -> float:
    """Mean squared error."""
    return float(np.mean((predicted - scores) ** 2))


def _correlation(function: Callable[[Array, Array], Any], predicted: Array, scores: Array) -> float:
    if _constant(predicted) or _constant(scores):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of nearly constant inputs
        value = float(function(predicted, scores).statistic)
    return value if np.isfinite(value) else 0.0


def _constant(values: Array) -> bool:
    return bool(np.all(values == values[:1]))


CLASSIFICATION: dict[str, Metric] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "weighted_f1": weighted_f1,
    "f1": f1,
    "matthews": matthews,
}
REGRESSION: dict[str, Metric] = {"pearson": pearson, "spearman": spearman, "mse": mse}
