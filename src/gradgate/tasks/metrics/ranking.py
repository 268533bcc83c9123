"""Compute metrics of rankings: normalised discounted cumulative gain, from scikit-learn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from gradgate.tasks.metrics.classes import Array

_CUTOFFS = {"ndcg": None, "ndcg@1": 1, "ndcg@5": 5, "ndcg@10": 10}


def score_ranking(scores: Array, predicted: Array, grades: Array, queries: Sequence[Hashable]) -> dict[str, float]:
    """Average every ranking metric over the queries with at least two documents; 0.0 if there are none.

    The gain of a document is its grade, that of rank r is discounted by log2(1 + r), documents of equal score share
    their ranks' mean discount, and a query whose grades are all 0 counts as 0. ``ndcg@k`` covers the first k documents.
    ``xglue_ndcg`` ranks by the predicted grades, as the XGLUE benchmark does; the others by ``scores``.

    Args:
        scores: rank a query's documents, shape ``(rows,)``.
        predicted: grade by prediction, shape ``(rows,)``.
        grades: true grade, 0 and above, shape ``(rows,)``.
        queries: each row's query.
    """
    groups: dict[Hashable, list[int]] = {}
    for row, query in enumerate(queries):
        groups.setdefault(query, []).append(row)
    several = [np.asarray(rows) for rows in groups.values() if len(rows) > 1]
    found = {name: _mean_ndcg(scores, grades, several, k) for name, k in _CUTOFFS.items()}
    found["xglue_ndcg"] = _mean_ndcg(predicted, grades, several, None)
    return {**found, "accuracy": float(np.mean(predicted == grades))}


def _mean_ndcg(scores: Array, grades: Array, groups: list[Array], k: int | None) -> float:
    from sklearn.metrics import ndcg_score

    return float(np.mean([ndcg_score(grades[None, rows], scores[None, rows], k=k) for rows in groups] or [0.0]))
