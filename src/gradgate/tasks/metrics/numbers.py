"""Compute metrics of numbers with scipy. Degenerate inputs give 0.0 and no warning, never NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradgate.tasks.metrics.classes import Array, Function, constant


def score_numbers(predicted: Array, scores: Array) -> dict[str, float]:
    """Compute every regression metric of numbers, both of shape ``(rows,)``."""
    predicted, scores = predicted.astype(np.float64), scores.astype(np.float64)
    return {name: metric(predicted, scores) for name, metric in FUNCTIONS.items()}


def pearson(predicted: Array, scores: Array) -> float:
    """Compute Pearson's r; 0.0 if it is undefined: fewer than two rows, or constant scores or predictions."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, predicted, scores)


def spearman(predicted: Array, scores: Array) -> float:
    """Compute Spearman's rho, ties by mean rank; 0.0 if it is undefined, as for ``pearson``."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, predicted, scores)


def mse(predicted: Array, scores: Array) -> float:
    """Compute the mean squared error."""
    return float(np.mean((predicted - scores) ** 2))


def _correlation(function: Callable[[Array, Array], Any], predicted: Array, scores: Array) -> float:
    if constant(predicted) or constant(scores):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns about nearly constant inputs
        value = float(function(predicted, scores).statistic)
    return value if np.isfinite(value) else 0.0


FUNCTIONS: dict[str, Function] = {"pearson": pearson, "spearman": spearman, "mse": mse}
