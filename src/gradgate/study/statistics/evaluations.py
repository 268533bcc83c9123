"""Mean against best over the evaluations of one run: how much the best checkpoint owes to picking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.errors import DataError
from gradgate.study.statistics.scores import finite


@dataclass(frozen=True)
class MeanAgainstBest:
    """Scores of one run over its evaluations.

    Attributes:
        n: evaluations.
        mean: over all of them.
        best: the best of them.
        gap: how far the best is from the mean, never negative; small for a run that is stable.
    """

    n: int
    mean: float
    best: float
    gap: float


def mean_against_best(scores: Sequence[float], higher_is_better: bool = True) -> MeanAgainstBest:
    """The mean over all evaluations of a run and the best one, on dev.

    Args:
        scores: one for each evaluation, in any order; the paper evaluates each 20 steps.

    Raises:
        DataError: if there is no evaluation, or a score is not finite.
    Source:
        On the Effectiveness of Adapter-based Tuning, Table 6.
    """
    values = finite(scores, [f"evaluation {number}" for number in range(1, len(scores) + 1)])
    if not len(values):
        raise DataError("A run without an evaluation has no mean and no best. Give one score or more.")
    mean, best = float(values.mean()), float(values.max() if higher_is_better else values.min())
    return MeanAgainstBest(len(values), mean, best, abs(best - mean))
