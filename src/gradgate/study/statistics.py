"""What few seeds can say: means with intervals, paired differences, and corrected p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

FEW = 3
# Scores that differ by less than this part of their size differ by rounding only.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Summary:
    """Scores of one method over its seeds.

    Attributes:
        n: seeds.
        mean: None without seeds.
        sd: sample standard deviation (n - 1 in the denominator); None for fewer than two seeds.
        interval: t confidence interval of the mean; None where there is no spread to build it from.
        note: what the reader must know to take the numbers for what they are, or None.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    note: str | None = None


@dataclass(frozen=True)
class Comparison:
    """One method minus the reference, paired by seed.

    Attributes:
        n: seeds that both have.
        difference: mean of the paired differences; None without common seeds.
        sd: their sample standard deviation; None for fewer than two pairs.
        interval: t confidence interval of the mean difference; None where ``p`` is None.
        p: two-sided paired t-test; None where no test is possible, and ``note`` says why.
        note: as in :class:`Summary`.
    """

    n: int
    difference: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    note: str | None = None


def summarize(values: Sequence[float], confidence: float = 0.95) -> Summary:
    """Mean, spread and t interval of the scores of one method.

    Raises:
        ValueError: if a value is not finite.
    """
    scores = _finite(values)
    n = len(scores)
    if n == 0:
        return Summary(0, note="no finished seed")
    mean = float(scores.mean())
    if n == 1:
        return Summary(1, mean, note="1 seed: no spread, interval or test")
    if np.ptp(scores) <= _ROUNDING * np.abs(scores).max():
        return Summary(n, mean, 0.0, note=f"all {n} seeds scored the same: no interval")
    sd = float(scores.std(ddof=1))
    return Summary(n, mean, sd, _interval(mean, sd, n, confidence), _caution(n))


def compare_paired(scores: Mapping[int, float], reference: Mapping[int, float], confidence: float = 0.95) -> Comparison:
    """Compare a method to the reference over the seeds that both have.

    Pairing by seed removes what the seed does to both alike (order of the data, initial head).

    Args:
        scores: seed to score.
        reference: the same for the method to compare to.

    Raises:
        ValueError: if a score is not finite.
    """
    seeds = sorted(scores.keys() & reference.keys())
    ours, theirs = _finite([scores[s] for s in seeds]), _finite([reference[s] for s in seeds])
    n = len(seeds)
    if n == 0:
        return Comparison(0, note="no seed that both finished: no comparison")
    differences = ours - theirs
    mean = float(differences.mean())
    if n == 1:
        return Comparison(1, mean, note="1 common seed: no interval or test")
    size = max(np.abs(ours).max(), np.abs(theirs).max())
    if np.abs(differences).max() <= _ROUNDING * size:
        return Comparison(n, 0.0, 0.0, note=f"the same score as the reference for all {n} seeds: no test")
    if np.ptp(differences) <= _ROUNDING * size:
        return Comparison(n, mean, 0.0, note=f"the same difference for all {n} seeds: no spread to test against")
    sd = float(differences.std(ddof=1))
    p = float(2 * stats.t.sf(abs(mean) / (sd / np.sqrt(n)), n - 1))
    return Comparison(n, mean, sd, _interval(mean, sd, n, confidence), p, _caution(n))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (Holm 1979) over the tests that were done; None stays None."""
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        corrected[index] = highest
    return corrected


def _finite(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(array).all():
        raise ValueError(f"Scores must be finite numbers; got {list(values)}.")
    return array


def _interval(mean: float, sd: float, n: int, confidence: float) -> tuple[float, float]:
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / n**0.5
    return mean - half, mean + half


def _caution(n: int) -> str | None:
    return f"{n} seeds: only very large differences can be detected" if n <= FEW else None
