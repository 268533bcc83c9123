"""Fit a logistic regression on features with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

STRENGTHS = (0.01, 0.1, 1.0, 10.0)
"""Inverse strengths of the penalty to choose from."""
_MOST_ITERATIONS = 1000
_NEVER = -30.0  # logit of a label without rows, below the lowest one
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """A fitted logistic regression.

    Attributes:
        c: inverse strength of its penalty.
        weight: ``(labels, features)``.
        bias: ``(labels,)``.
    """

    c: float
    weight: Array
    bias: Array

    def logits(self, features: Array) -> Array:
        """Return the logits of rows, ``(rows, labels)``."""
        logits: Array = features @ self.weight.T + self.bias
        return logits


def best_fit(
    features: Array,
    labels: npt.NDArray[np.int64],
    count: int,
    strengths: tuple[float, ...],
    score: Callable[[Fit], float],
    *,
    balanced: bool = False,
    bias: bool = True,
) -> Fit:
    """Fit a regression with each strength of its penalty, and return the one with the highest score.

    Features are standardized for the fit; the returned weights are for the features as they are. In a tie, the
    strongest penalty is chosen.

    Args:
        features: of the training rows, ``(rows, features)``.
        labels: of the rows, 0 to ``count - 1``. A label without rows is never predicted, if there is a bias.
        count: number of labels.
        strengths: inverse strengths of the penalty.
        score: of a fit; higher is better.
        balanced: weight each row by how rare its label is.
        bias: fit a bias; without one, features are scaled and not centred.
    """
    mean = features.mean(axis=0) if bias else np.zeros(features.shape[1])
    spread = features.std(axis=0)
    spread[spread < 1e-8 * max(1.0, float(np.abs(features).max()))] = np.inf  # constant features get no weight
    scaled = (features - mean) / spread
    fits = []
    for c in sorted(strengths):
        model = LogisticRegression(
            C=c, fit_intercept=bias, max_iter=_MOST_ITERATIONS, class_weight="balanced" if balanced else None
        ).fit(scaled, labels)
        weight, offset = _per_label(model, count)
        weight = weight / spread
        fits.append(Fit(c, weight, (offset - weight @ mean) if bias else offset))
    if len(fits) == 1:
        return fits[0]
    return max(fits, key=score)


def _per_label(model: Any, count: int) -> tuple[Array, Array]:
    """Return weights and biases for every label; scikit-learn has one row for two labels, none for absent ones."""
    weight, offset = model.coef_, np.broadcast_to(model.intercept_, model.coef_.shape[:1])
    if len(model.classes_) == 2:
        weight, offset = np.vstack([-weight, weight]) / 2, np.concatenate([-offset, offset]) / 2
    weights, offsets = np.zeros((count, weight.shape[1])), np.zeros(count)
    if model.fit_intercept:
        offsets += offset.min() + _NEVER
    weights[model.classes_], offsets[model.classes_] = weight, offset
    return weights, offsets
