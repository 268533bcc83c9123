"""Compute metrics of any number of labels per row with scikit-learn. Degenerate inputs give 0.0 and no warning."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def score_label_sets(probabilities: Array, predicted: Array, gold: Array) -> dict[str, float]:
    """Compute every metric of several labels per row.

    Args:
        probabilities: of each label, shape ``(rows, labels)``.
        predicted: 1 for a label that is predicted, else 0, of the same shape.
        gold: the same of the labels that rows have.

    Returns:
        ``micro_f1`` of all decisions together; ``macro_f1``, the mean over labels, in which one that neither occurs nor
        is predicted counts as 0; and ``mean_average_precision``, the mean over the labels that occur.
    """
    from sklearn.metrics import average_precision_score, f1_score

    occurs = gold.any(axis=0)
    precision = (
        average_precision_score(gold[:, occurs], probabilities[:, occurs], average="macro") if occurs.any() else 0.0
    )
    return {
        "micro_f1": float(f1_score(gold, predicted, average="micro", zero_division=0.0)),
        "macro_f1": float(f1_score(gold, predicted, average="macro", zero_division=0.0)),
        "mean_average_precision": float(precision),
    }
