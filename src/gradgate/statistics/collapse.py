"""Find runs that collapsed: far below the other runs of their arm, or no better than guessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import TypeVar

K = TypeVar("K")
LEAST_GAP = 0.1
"""A run is not far below its arm's median within ten points."""
_DEVIATIONS = 5.0
_TO_SIGMA = 1.4826  # of a median absolute deviation, for normal values


@dataclass(frozen=True)
class CollapseRate:
    """The share of an arm's runs that collapsed.

    Attributes:
        collapsed, runs: how many of how many.
        interval: Wilson's 95 % interval of the share.
    """

    collapsed: int
    runs: int
    interval: tuple[float, float]


def collapsed(scores: Mapping[K, float], higher_is_better: bool, guessed: float | None = None) -> frozenset[K]:
    """Return the runs of an arm that collapsed.

    A run has collapsed if it is no better than guessing, if that score is known; or if it is more than ten points and
    more than five robust standard deviations (1.4826 times the median absolute deviation) worse than the median of its
    arm. An arm of which half collapsed has a median that says nothing, so its own runs show it only by chance.

    Args:
        scores: run to score, as a share of 1.
        higher_is_better: whether higher scores are better. Scores without bounds, such as losses, never collapse.
        guessed: the score of always answering with the most frequent class; None if unknown.
    """
    if not higher_is_better or not scores or not all(-1 <= score <= 1 for score in scores.values()):
        return frozenset()
    middle = median(scores.values())
    spread = _TO_SIGMA * median(abs(score - middle) for score in scores.values())
    least = middle - max(LEAST_GAP, _DEVIATIONS * spread)
    return frozenset(
        run for run, score in scores.items() if score < least or (guessed is not None and score <= guessed)
    )


def collapse_rate(count: int, runs: int) -> CollapseRate:
    """Return the share of collapsed runs with Wilson's 95 % interval.

    Source:
        Wilson 1927, Probable inference, the law of succession, and statistical inference.
    """
    if not runs:
        return CollapseRate(count, runs, (0.0, 1.0))
    z, share = 1.959963984540054, count / runs
    middle = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return CollapseRate(count, runs, (max(0.0, middle - half), min(1.0, middle + half)))
