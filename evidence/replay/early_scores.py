"""Measure how well scores of short runs order the arms of a grid, compared with its whole runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from evidence.replay.squeezed import SQUEEZED, squeezed_curves
from gradgate.errors import DataError
from gradgate.study.budget import RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.curve_rows import WHOLE, CurveRow
from gradgate.study.replay.curves import Curves, as_curves


@dataclass(frozen=True)
class EarlyScores:
    """The scores at one length of runs, against those of whole runs on all seeds.

    Attributes:
        eighths: of the schedule.
        correlation: Spearman's rank correlation of arms' means; None if all are equal.
        of_one_seed: the same with the scores of one seed, the mean over seeds.
        best_kept: share of seeds in whose early scores alone the best arm of whole runs is in the better half.
    """

    eighths: int
    correlation: float | None
    of_one_seed: float | None
    best_kept: float


def early_scores(curves: Curves) -> list[EarlyScores]:
    """Return the scores at each length before the whole; arms with a failed run are left out.

    Raises:
        DataError: if fewer than two arms are left.
    """
    grid = curves.grid
    failed = {key.arm for key, run in curves.runs.items() if run.has_failed}
    arms = [arm for arm in grid.arms if arm not in failed]
    if len(arms) < 2:
        raise DataError(f"{len(arms)} of {len(grid.arms)} arms have no failed run: expected two or more to order.")
    sign = 1.0 if grid.higher_is_better else -1.0

    def table(eighths: int) -> npt.NDArray[np.float64]:
        """Return scores of shape (arms, seeds), the mean over tasks."""
        scores = {
            (arm, seed): [
                curves.runs[RunKey(arm, task, seed)].best(grid.until(task, eighths), grid.higher_is_better)
                for task in grid.steps
            ]
            for arm, seed in product(arms, grid.seeds)
        }
        means = [sign * fmean(score for score in found if score is not None) for found in scores.values()]
        return np.array(means).reshape(len(arms), len(grid.seeds))

    whole = table(EIGHTHS[-1]).mean(1)
    best, half = int(np.argmax(whole)), -(-len(arms) // 2)
    found = []
    for eighths in EIGHTHS[:-1]:
        early = table(eighths)
        single = [rank for seed in early.T if (rank := rank_correlation(seed, whole)) is not None]
        kept = [int((seed > seed[best]).sum()) < half for seed in early.T]
        mean = rank_correlation(early.mean(1), whole)
        found.append(EarlyScores(eighths, mean, fmean(single) if single else None, fmean(kept)))
    return found


def rank_correlation(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float | None:
    """Return Spearman's rank correlation; equal scores share their mean rank. None if all scores of one are equal."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def by_schedule(rows: Sequence[CurveRow]) -> Iterator[tuple[str, EarlyScores, bool]]:
    """Yield the early scores of a grid's cut schedules, and of squeezed ones if it has them, on the seeds of both.

    Yields:
        The schedule, its scores at one length, and whether there are squeezed runs of that length.
    """
    short = [row for row in rows if row.schedule == SQUEEZED]
    lengths, seeds = {row.of_steps for row in short}, {row.seed for row in short}
    rows = [row for row in rows if row.seed in seeds] if short else rows
    for schedule, curves in {WHOLE: as_curves(rows), **({SQUEEZED: squeezed_curves(rows)} if short else {})}.items():
        for each in early_scores(curves):
            has_both = not lengths.isdisjoint(curves.grid.until(task, each.eighths) for task in curves.grid.steps)
            if schedule == WHOLE or has_both:
                yield schedule, each, has_both


def early_lines(rows: Sequence[CurveRow]) -> list[str]:
    """Return a table of the early scores of a grid."""
    lines = ["schedule   of the steps   all seeds   one seed   best in the better half of one seed"]
    for schedule, each, _ in by_schedule(rows):
        mean, single = shown(each.correlation), shown(each.of_one_seed)
        lines.append(f"{schedule:<11}{each.eighths / 8:<15g}{mean:>9}{single:>11}{each.best_kept:>39.0%}")
    return lines


def shown(correlation: float | None) -> str:
    """Return a correlation as a table has it."""
    return "–" if correlation is None else f"{correlation:.3f}"
