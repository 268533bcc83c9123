"""Pool differences over tasks: a random-effects mean of three or more, and each task for itself if there are fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import optimize, stats

LEVEL = 0.05


@dataclass(frozen=True)
class Pooled:
    """The mean difference over the tasks of a situation.

    Attributes:
        interval: for three or more tasks, of the mean over tasks like these; for fewer, from the lowest to the highest
            end of the tasks' own intervals, so what it excludes is excluded on each task.
        between: the standard deviation of the tasks' true differences; None for fewer than three tasks.
        tasks: how many.
        each: if there are two tasks, their names with the difference and the interval of each.
    """

    mean: float
    interval: tuple[float, float]
    between: float | None
    tasks: int
    each: tuple[tuple[str, Pooled], ...] = ()


def alone(difference: float, spreads: Sequence[tuple[float, float]], level: float = LEVEL) -> Pooled:
    """Return one task with the widest of its t intervals.

    Over runs and rows, Satterthwaite's degrees of freedom are more than over runs, so that interval alone would often
    be narrower, the more so at a low level.

    Args:
        spreads: the variance over runs, and that over runs and rows if these are known, with their degrees of freedom.
        level: one minus the confidence of the interval.
    """
    half = max(float(stats.t.isf(level / 2, freedom)) * variance**0.5 for variance, freedom in spreads)
    return Pooled(difference, (difference - half, difference + half), None, 1)


def both(each: Mapping[str, Pooled]) -> Pooled:
    """Return the mean of two tasks, by name: too few for an interval of tasks like these."""
    ends = [end for task in each.values() for end in task.interval]
    return Pooled(fmean(task.mean for task in each.values()), (min(ends), max(ends)), None, 2, tuple(each.items()))


def random_effects(differences: Sequence[float], variances: Sequence[float], level: float = LEVEL) -> Pooled:
    """Pool the differences of three or more tasks.

    Args:
        differences: one per task.
        variances: of each, above 0.
        level: one minus the confidence of the interval.

    Source:
        Paule and Mandel 1982 for the variance between tasks; Hartung and Knapp 2001 and Sidik and Jonkman 2002 for the
        interval, whose factor is not below 1 (Röver, Knapp and Friede 2015).
    """
    effects, within = np.asarray(differences, float), np.asarray(variances, float)
    count = len(effects)

    def weighted(between: float) -> tuple[float, float, float]:
        weights = 1 / (within + between)
        mean = float((weights * effects).sum() / weights.sum())
        return mean, float(weights.sum()), float((weights * (effects - mean) ** 2).sum())

    def excess(between: float) -> float:
        return weighted(between)[2] - (count - 1)

    largest = float(effects.var(ddof=1)) * count + 1e-12
    between = 0.0 if excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, largest))
    mean, total, spread = weighted(between)
    error = (max(spread / (count - 1), 1.0) / total) ** 0.5
    half = float(stats.t.isf(level / 2, count - 1)) * error
    return Pooled(mean, (mean - half, mean + half), between**0.5, count)
