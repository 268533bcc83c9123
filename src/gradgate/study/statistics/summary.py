"""Scores of one method: their mean, their spread, and how well few of them place the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from gradgate.study.statistics.scores import finite, level

FEW = 3


@dataclass(frozen=True)
class Summary:
    """Scores of one method over its seeds.

    Attributes:
        n: seeds.
        mean: None without seeds.
        sd: sample standard deviation (n - 1 in the denominator); None for fewer than two seeds.
        interval: t confidence interval of the mean; None where there is no spread to build it from.
        note: what the reader must know to take the numbers for what they are, or None.
        values: the scores themselves.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    note: str | None = None
    values: tuple[float, ...] = ()


def summarize(values: Sequence[float], confidence: float = 0.95) -> Summary:
    """Mean, spread and t interval of the scores of one method.

    Raises:
        DataError: if a value is not finite.
    """
    scores = finite(values)
    n, kept = len(scores), tuple(scores.tolist())
    if n == 0:
        return Summary(0, note="no finished seed")
    mean = float(scores.mean())
    if n == 1:
        return Summary(1, mean, note="1 seed: no spread, interval or test", values=kept)
    if level(scores):
        return Summary(n, mean, 0.0, note=f"all {n} seeds scored the same: no interval", values=kept)
    sd = float(scores.std(ddof=1))
    return Summary(n, mean, sd, t_interval(mean, sd, n, confidence), caution(n, "seed"), kept)


def t_interval(mean: float, sd: float, n: int, confidence: float) -> tuple[float, float]:
    """The interval that covers the true mean with this confidence, for values that are roughly normal."""
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / n**0.5
    return mean - half, mean + half


def caution(n: int, unit: str) -> str | None:
    """What is to be said of ``n`` units (2 or more) when they are few."""
    return f"{n} {unit}s: only very large differences can be detected" if n <= FEW else None
