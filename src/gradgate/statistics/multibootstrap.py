"""Resample seeds and test rows together: the noise of a paired difference, and what each of both adds to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradgate.errors import DataError

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Metric: TypeAlias = Callable[[Array], Array]
"""Maps sums of counts over rows, of shape ``(…, counts)``, to scores of shape ``(…)``."""
RESAMPLES = 1000
_CHUNK = 4_000_000  # row numbers that are drawn at a time


@dataclass(frozen=True)
class RowNoise:
    """The noise of a mean paired difference over seeds and test rows, in the unit of the scores.

    Attributes:
        seeds, rows: that were resampled; ``rows`` of all splits together, or of one if they are translations.
        resamples: how often.
        interval: the 2.5 and 97.5 percentiles of the resampled differences. Too narrow over few seeds.
        interval_t: the t interval from the variances of both, not narrower than that over seeds alone.
        error: the standard error over both.
        freedom: its degrees of freedom.
        variance_seeds, variance_rows, variance_rest: shares of the variance that resampling both gives: of seeds alone,
            of rows alone, and what both do together. They sum to 1; the rest may be below 0.
        removed_seeds: the share of the variance over seeds that pairing by seed removed: one minus the variance of the
            differences over the sum of both arms' variances. Below 0 where pairing added noise.
        removed_rows: the same of the variance over rows.
    """

    seeds: int
    rows: int
    resamples: int
    interval: tuple[float, float]
    interval_t: tuple[float, float]
    error: float
    freedom: float
    variance_seeds: float
    variance_rows: float
    variance_rest: float
    removed_seeds: float | None
    removed_rows: float | None


def multi_bootstrap(
    ours: Sequence[Array],
    theirs: Sequence[Array],
    metric: Metric,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    translated: bool = False,
) -> RowNoise | None:
    """Compute the noise of a paired comparison by resampling its seeds and rows.

    Args:
        ours: one array per split, of shape ``(seeds, rows, counts)``: what each row adds to each score. The score of an
            arm is the mean over the splits.
        theirs: the same of the reference, with the same seeds and rows.
        metric: the score from sums of counts.
        resamples: how often.
        seed: of the resampling; equal seeds and values give equal results.
        translated: whether the splits are one set of rows in several languages. Then a row is drawn in all of them at
            once, as one that is hard is so in each.

    Returns:
        None for fewer than two seeds, or if nothing varies.

    Raises:
        DataError: if the two have other seeds or rows, or translated splits different numbers of rows.
    Source:
        Sellam et al. 2022, The MultiBERTs, sec. 3: the multi-bootstrap for paired seeds. Owen 2007, The pigeonhole
        bootstrap. Satterthwaite 1946 for the degrees of freedom.
    """
    if not ours or [each.shape[:2] for each in ours] != [each.shape[:2] for each in theirs]:
        shapes = [[each.shape[:2] for each in side] for side in (ours, theirs)]
        raise DataError(f"Rows are compared in pairs; got seeds and rows {shapes[0]} and {shapes[1]}.")
    if translated and len({each.shape[1] for each in ours}) > 1:
        raise DataError(f"Translated splits have equal rows; got {', '.join(str(each.shape[1]) for each in ours)}.")
    seeds = ours[0].shape[0]
    if seeds < 2:
        return None
    draw = np.random.default_rng(seed)
    chosen = draw.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    whole = [np.mean([metric(each.sum(axis=1)) for each in side], axis=0) for side in (ours, theirs)]
    draws = [copy.deepcopy(draw) if translated else draw for _ in ours]  # equal states draw equal rows
    redrawn = _redrawn(ours, theirs, metric, resamples, draws)
    rows = [each.shape[1] for each in ours]
    return _noise(whole, redrawn, chosen, rows[0] if translated else sum(rows))


def score_interval(
    counts: Array, metric: Metric, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float] | None:
    """Compute the 95 % percentile interval of one score by resampling its rows.

    It says what other rows of the same kind would change, not what another seed would.

    Args:
        counts: what each row adds, of shape ``(rows, counts)``.
        metric: the score from sums of counts.
        resamples: how often.
        seed: of the resampling; equal seeds and values give equal results.

    Returns:
        The 2.5 and 97.5 percentiles; None for fewer than two rows, or if a resample has no score.

    Source:
        Efron 1979, Bootstrap methods: another look at the jackknife; the percentile method of Efron 1981.
    """
    if len(counts) < 2:
        return None
    draw = np.random.default_rng(seed)
    scores = np.concatenate([metric(weights @ counts) for _, weights in _weights(len(counts), resamples, draw)])
    if not np.isfinite(scores).all():
        return None
    low, high = np.quantile(scores, [0.025, 0.975]).tolist()
    return low, high


def _redrawn(
    ours: Sequence[Array],
    theirs: Sequence[Array],
    metric: Metric,
    resamples: int,
    draws: Sequence[np.random.Generator],
) -> list[Array]:
    """Return the scores of both arms over resampled rows, ``(resamples, seeds)`` each; a generator per split."""
    scores = [np.zeros((resamples, ours[0].shape[0])) for _ in range(2)]
    for own, other, draw in zip(ours, theirs, draws, strict=True):
        flat = [np.moveaxis(each, 1, 0).reshape(each.shape[1], -1) for each in (own, other)]
        for start, weights in _weights(own.shape[1], resamples, draw):
            for side, each, counts in zip(scores, flat, (own, other), strict=True):
                sums = (weights @ each).reshape(len(weights), counts.shape[0], counts.shape[2])
                side[start : start + len(weights)] += metric(sums) / len(ours)
    return scores


def _weights(rows: int, resamples: int, draw: np.random.Generator) -> Iterator[tuple[int, Array]]:
    """Yield how often each row is in each resample, some resamples at a time, with the number of the first."""
    step = max(1, _CHUNK // rows)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        places = draw.integers(rows, size=(count, rows)) + rows * np.arange(count)[:, None]
        yield start, np.bincount(places.ravel(), minlength=count * rows).reshape(count, rows).astype(np.float64)


def _noise(whole: Sequence[Array], redrawn: Sequence[Array], chosen: Array, rows: int) -> RowNoise | None:
    """Return the noise from the scores of all rows, ``(seeds,)``, and of resampled rows, ``(resamples, seeds)``."""
    from scipy import special  # takes half a second, which listing claims need not wait for

    differences, resampled = whole[0] - whole[1], redrawn[0] - redrawn[1]
    both = (chosen * resampled).sum(axis=1)
    of_seeds, of_rows, of_both = (
        float(values.var()) for values in (chosen @ differences, resampled.mean(axis=1), both)
    )
    if of_both <= 0 or of_seeds + of_rows <= 0:
        return None
    seeds = len(differences)
    of_rest = of_both - of_seeds - of_rows
    few = seeds / (seeds - 1)  # resampled seeds vary too little
    over_seeds = float(differences.var(ddof=1)) / seeds
    # Both parts contain what seeds and rows do together, which counts once.
    variance = max(over_seeds + of_rows - max(of_rest, 0.0) * few, over_seeds, of_rows)
    freedom = variance**2 / (over_seeds**2 / (seeds - 1) + (variance - over_seeds) ** 2 / max(rows - 1, 1))
    mean, error = float(differences.mean()), variance**0.5
    # Satterthwaite's freedom may gain more than the rows add, so the interval of the seeds is the least.
    least = float(special.stdtrit(seeds - 1, 0.975)) * over_seeds**0.5
    half = max(float(special.stdtrit(freedom, 0.975)) * error, least)
    low, high = np.quantile(both, [0.025, 0.975]).tolist()
    apart = [float(np.var(values, ddof=1)) for values in (*whole, differences)]
    apart_rows = [float(values.mean(axis=1).var()) for values in redrawn]
    return RowNoise(
        seeds=seeds,
        rows=rows,
        resamples=len(chosen),
        interval=(low, high),
        interval_t=(mean - half, mean + half),
        error=error,
        freedom=freedom,
        variance_seeds=of_seeds / of_both,
        variance_rows=of_rows / of_both,
        variance_rest=of_rest / of_both,
        removed_seeds=1 - apart[2] / sum(apart[:2]) if sum(apart[:2]) > 0 else None,
        removed_rows=1 - of_rows / sum(apart_rows) if sum(apart_rows) > 0 else None,
    )
