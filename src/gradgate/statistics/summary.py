"""Summarize the scores of one method or run: mean, spread, t interval, bootstrap interval, and mean against best.

Numbers that are not finite are rejected. Scores that differ only by rounding count as equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gradgate.errors import DataError

Array: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

# A relative difference below this is rounding.
ROUNDING = 1e-12


def finite(values: Sequence[float], names: Iterable[str] = ()) -> Array:
    """Return the values as a float64 array of shape ``(n,)`` after checking that all are finite.

    Args:
        names: what each value belongs to, for the error.

    Raises:
        DataError: if a value is not finite.
    """
    array: Array = np.asarray(values, dtype=np.float64).reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        known = list(names)
        shown = [f"{array[i]} for {known[i] if known else f'value {i}'}" for i in wrong]
        raise DataError(f"Scores must be finite numbers; got {', '.join(shown)}. Leave failed runs out and count them.")
    return array


def level(values: Array) -> bool:
    """Return True if all values are equal up to rounding."""
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


FEW = 3


@dataclass(frozen=True)
class Summary:
    """Scores of one method over its seeds.

    Attributes:
        n: number of seeds.
        mean: None without seeds.
        sd: sample standard deviation (n - 1 in the denominator); None for fewer than two seeds.
        interval: t confidence interval of the mean; None without spread.
        note: a caution that the reader needs to interpret the numbers, or None.
        values: the scores themselves.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    note: str | None = None
    values: tuple[float, ...] = ()


def summarize(values: Sequence[float], confidence: float = 0.95) -> Summary:
    """Compute the mean, spread and t interval of the scores of one method.

    Raises:
        DataError: if a value is not finite.
    """
    scores = finite(values)
    n, plain = len(scores), tuple(scores.tolist())
    if n == 0:
        return Summary(0, note="no finished seed")
    mean = float(scores.mean())
    if n == 1:
        return Summary(1, mean, note="1 seed: no spread, interval or test", values=plain)
    if level(scores):
        return Summary(n, mean, 0.0, note=f"all {n} seeds scored the same: no interval", values=plain)
    sd = float(scores.std(ddof=1))
    return Summary(n, mean, sd, t_interval(mean, sd, n, confidence), caution(n, "seed"), plain)


def t_interval(mean: float, sd: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the t interval of the mean at this confidence; it assumes roughly normal values."""
    from scipy import special  # takes half a second, which listing claims need not wait for

    half = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * sd / n**0.5
    return mean - half, mean + half


def caution(n: int, unit: str) -> str | None:
    """Return a caution if ``n`` units (2 or more) are few, else None."""
    return f"{n} {unit}s: only very large differences can be detected" if n <= FEW else None


RESAMPLES = 9999


@dataclass(frozen=True)
class BootstrapInterval:
    """A bootstrap interval of a mean; ``method`` says how its ends were computed."""

    low: float
    high: float
    method: Literal["BCa", "percentile"]


def bootstrap_interval(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> BootstrapInterval | None:
    """Compute the bootstrap interval of the mean, bias-corrected and accelerated (BCa), from 9999 resamples.

    It assumes no normality, but cannot leave the range of the values: with few of them it is too narrow, and the t
    interval is more careful. If BCa's correction is not defined (its skewness is 0/0), the plain percentiles of the
    resampled means are returned. Equal values and seeds give equal intervals.

    Returns:
        None for fewer than two values, or for values without spread.

    Raises:
        DataError: if a value is not finite.
    Source:
        Efron 1987, Better bootstrap confidence intervals; ``scipy.stats.bootstrap``.
    """
    scores = finite(values)
    if len(scores) < 2 or level(scores):
        return None
    corrected = _ends(scores, "BCa", confidence, seed)
    if np.isfinite(corrected).all():
        return BootstrapInterval(*corrected, method="BCa")
    return BootstrapInterval(*_ends(scores, "percentile", confidence, seed), method="percentile")


def _ends(
    scores: np.ndarray[tuple[int], np.dtype[np.float64]],
    method: Literal["BCa", "percentile"],
    confidence: float,
    seed: int,
) -> tuple[float, float]:
    from scipy import stats  # takes a second, which listing claims need not wait for

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        interval = stats.bootstrap(
            (scores,),
            np.mean,
            n_resamples=RESAMPLES,
            confidence_level=confidence,
            method=method,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class MeanAgainstBest:
    """Scores of one run over its evaluations.

    Attributes:
        n: number of evaluations.
        mean: over all of them.
        best: the best of them.
        gap: distance from the mean to the best, never negative; small for a stable run.
    """

    n: int
    mean: float
    best: float
    gap: float


def mean_against_best(scores: Sequence[float], higher_is_better: bool = True) -> MeanAgainstBest:
    """Compare the mean over all dev evaluations of a run to the best one.

    Args:
        scores: one per evaluation, in any order; the paper evaluates every 20 steps.

    Raises:
        DataError: if there is no evaluation, or a score is not finite.
    Source:
        On the Effectiveness of Adapter-based Tuning, Table 6.
    """
    values = finite(scores, [f"evaluation {number}" for number in range(1, len(scores) + 1)])
    if not len(values):
        raise DataError("A run without an evaluation has no mean and no best: got 0 scores. Pass one or more.")
    mean, best = float(values.mean()), float(np.max(values) if higher_is_better else np.min(values))
    return MeanAgainstBest(len(values), mean, best, abs(best - mean))
