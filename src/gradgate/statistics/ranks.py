"""Apply Wilcoxon's signed-rank test, which uses the order of the differences and no assumed distribution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gradgate.statistics.summary import ROUNDING, finite


def signed_ranks(differences: Sequence[float], size: float | None = None) -> tuple[float, ...]:
    """Return the ranks of the absolute differences, 1 for the smallest, with the signs of the differences.

    Ties share their mean rank. Differences of 0 are left out, as Wilcoxon did.

    Args:
        size: magnitude of the scores behind the differences; differences that differ only by rounding are ties. None
            uses the largest difference.

    Raises:
        DataError: if a difference is not finite.
    """
    from scipy import stats  # takes a second, which listing claims need not wait for

    values = finite(differences)
    step = ROUNDING * (np.abs(values).max(initial=0.0) if size is None else size)
    steps = np.round(values / step) if step > 0 else values
    steps = steps[steps != 0]
    ranks = np.sign(steps) * stats.rankdata(np.abs(steps))
    return tuple(ranks.tolist())


@lru_cache(maxsize=4096)
def signed_rank_p(ranks: tuple[float, ...]) -> float | None:
    """Compute the two-sided p of Wilcoxon's test from :func:`signed_ranks`; None for fewer than two ranks.

    The p is exact for any number of ranks, also with ties, where ``scipy.stats.wilcoxon`` approximates or tries all
    signs: the distribution of the positive rank sum is built rank by rank, each positive or negative by a fair coin.

    Source:
        Wilcoxon 1945, Individual comparisons by ranking methods.
    """
    if len(ranks) < 2:
        return None
    doubled = [round(2 * rank) for rank in ranks]  # tied ranks are halves
    chance = np.ones(1)
    for rank in doubled:
        grown = np.zeros(len(chance) + abs(rank))
        grown[: len(chance)] += chance / 2
        grown[abs(rank) :] += chance / 2
        chance = grown
    observed = sum(rank for rank in doubled if rank > 0)
    tail = min(chance[: observed + 1].sum(), chance[observed:].sum())
    return float(min(1.0, 2 * tail))


def rank_biserial(ranks: tuple[float, ...]) -> float | None:
    """Compute the effect size of Wilcoxon's test: -1 (all differences negative) to 1 (all positive).

    It is the rank sum of the positive differences minus that of the negative ones, over the sum of all; None without
    ranks.

    Source:
        Kerby 2014, The simple difference formula.
    """
    total = sum(abs(rank) for rank in ranks)
    return sum(ranks) / total if total else None


def least_p(n: int) -> float:
    """Return the smallest two-sided p of Wilcoxon's test with ``n`` differences that are not 0: 2 / 2^n."""
    return float(min(1.0, 2.0 * 0.5**n))


def pairs_to_reach(level: float = 0.05, tests: int = 1) -> int:
    """Return the fewest pairs with which Wilcoxon's p can fall below ``level`` after Holm's correction.

    ``tests`` is the number of tests; one test at 0.05 needs 6 pairs.
    """
    n = 1
    while tests * least_p(n) >= level:
        n += 1
    return n
