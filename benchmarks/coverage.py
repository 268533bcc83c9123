"""Simulate how often the intervals of ``gradgate study verdicts`` include the true difference.

There are two arms. A test row is right if its ease, an effect of the arm on this row, an effect of the run, and noise
sum to more than 0. The arms are equally good, so the true difference over new seeds and new rows is 0, but in the
collapsing arm one run in ten is no better than guessing. Effects of runs are normal, or t with 4 degrees of freedom.
"seeds" is the t interval over seeds, "percentile" and "t" are those of the multi-bootstrap over seeds and rows.
Wilson's interval of the share of collapsed runs is computed exactly, for shares of 0.1 and 0.3.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from gradgate.statistics import collapse_rate, multi_bootstrap

REPEATS = {50: 1000, 500: 600, 5000: 200}  # fewer where each takes long; 200 are exact to 3 points
KINDS, SEEDS, ROWS = ("normal", "t4", "collapsing"), (3, 5, 10), tuple(REPEATS)
RESAMPLES = 400
RUN_SD, ARM_ROW_SD, NOISE_SD, EASE, COLLAPSED = 0.1, 0.3, 0.5, 1.0, 0.1

Values = npt.NDArray[np.float64]


def run() -> list[str]:
    """Return a line per kind of runs, number of seeds and number of rows, and those of Wilson's interval."""
    lines = ["  runs         seeds    rows     seeds   percentile       t"]
    for kind, seeds, rows in product(KINDS, SEEDS, ROWS):
        found = covered(kind, seeds, rows, REPEATS[rows])
        lines.append(f"  {kind:<13}{seeds:>5}{rows:>8,}{found[0]:>10.1%}{found[1]:>13.1%}{found[2]:>8.1%}")
    for runs, share in product(SEEDS, (0.1, 0.3)):
        lines.append(f"  Wilson, {runs} runs, {share:.0%} collapse: {wilson(runs, share):.1%}")
    return lines


def covered(kind: str, seeds: int, rows: int, repeats: int) -> list[float]:
    """Return the share of simulations in which each interval holds the true difference."""
    hits, truth = np.zeros(3), -COLLAPSED * (_accurate() - 0.5) if kind == "collapsing" else 0.0
    for repeat in range(repeats):
        draw = np.random.default_rng([repeat, seeds, rows])
        ours, theirs = _right(kind, seeds, rows, draw)
        differences = ours.mean(axis=1) - theirs.mean(axis=1)
        half = stats.t.ppf(0.975, seeds - 1) * differences.std(ddof=1) / seeds**0.5
        ends = [(differences.mean() - half, differences.mean() + half)]
        noise = multi_bootstrap([_counts(ours)], [_counts(theirs)], _accuracy, RESAMPLES, repeat)
        ends += [(0.0, 0.0)] * 2 if noise is None else [noise.interval, noise.interval_t]
        hits += [low <= truth <= high for low, high in ends]
    return (hits / repeats).tolist()  # type: ignore[no-any-return]


def wilson(runs: int, share: float) -> float:
    """Return the probability that Wilson's interval holds the true share of collapsed runs."""
    counts = np.arange(runs + 1)
    holds = [low <= share <= high for low, high in (collapse_rate(int(count), runs).interval for count in counts)]
    return float(stats.binom.pmf(counts, runs, share) @ holds)


def _right(kind: str, seeds: int, rows: int, draw: np.random.Generator) -> tuple[Values, Values]:
    ease = draw.normal(EASE, 1.0, rows)
    return _arm(kind, seeds, ease, draw), _arm("normal" if kind == "collapsing" else kind, seeds, ease, draw)


def _accurate() -> float:
    """Return the expected accuracy of a run that did not collapse, with normal effects."""
    return float(stats.norm.cdf(EASE / (1 + RUN_SD**2 + ARM_ROW_SD**2 + NOISE_SD**2) ** 0.5))


def _arm(kind: str, seeds: int, ease: Values, draw: np.random.Generator) -> Values:
    """Return which rows are right in each run of an arm, ``(seeds, rows)``."""
    effect = draw.normal(0, RUN_SD, seeds) if kind != "t4" else draw.standard_t(4, seeds) * RUN_SD / 2**0.5
    known = ease + draw.normal(0, ARM_ROW_SD, len(ease))
    right = known + effect[:, None] + draw.normal(0, NOISE_SD, (seeds, len(ease))) > 0
    if kind == "collapsing":
        lost = draw.random(seeds) < COLLAPSED
        right[lost] = draw.random((int(lost.sum()), len(ease))) < 0.5
    return right.astype(np.float64)


def _counts(right: Values) -> Values:
    return np.stack([right, np.ones_like(right)], axis=-1)


def _accuracy(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(sums[..., 0] / sums[..., 1])
