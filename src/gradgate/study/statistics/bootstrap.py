"""Bootstrap intervals: how far the mean would move with other seeds, taken from the scores alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from gradgate.study.statistics.scores import finite, level

RESAMPLES = 9999


@dataclass(frozen=True)
class BootstrapInterval:
    """An interval of a mean; ``method`` says how its ends were placed."""

    low: float
    high: float
    method: Literal["BCa", "percentile"]


def bootstrap_interval(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> BootstrapInterval | None:
    """The bootstrap interval of the mean, bias-corrected and accelerated (BCa), from 9999 resamples.

    It takes nothing as normal, but it cannot leave the range of the values: with few of them it is too narrow, and
    the t interval is the more careful one. Where BCa's correction is not defined (its skewness is 0/0), the plain
    percentiles of the resampled means are given. Equal values and seeds give equal intervals.

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
