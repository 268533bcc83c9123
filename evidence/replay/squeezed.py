"""Put short runs with a schedule of their own in the place of early scores: are early scores of whole runs honest?

A budget compares whole schedules that were cut. Runs that are as short, with the schedule squeezed into them, show what
that costs. They cannot be resumed, so that no budget is spent on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gradgate.errors import DataError
from gradgate.runs.state import Progress
from gradgate.study.budget import FullGrid, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.curve_rows import CurveRow
from gradgate.study.replay.curves import Curves, as_curves, rows_by_run

SQUEEZED = "squeezed"
"""The schedule of runs that it ends with."""


@dataclass(frozen=True)
class SqueezedRun(Progress):
    """A run whose score at each length is that of a run of its own, and not the best so far."""

    def best(self, until: int, higher: bool) -> float | None:
        """Return the score of the longest run up to a step."""
        at = max((step for step in self.dev if step <= until), default=None)
        return None if at is None or self.step < until else self.dev[at]


def as_squeezed(short: Iterable[CurveRow], whole: Sequence[CurveRow]) -> list[CurveRow]:
    """Return the rows of short runs, marked as such, with the names that their arms have among whole ones.

    A method whose options count steps has other ones in a short run: an arm that the grid lacks is its one arm with the
    same adapter, rate and method but for the options.

    Raises:
        DataError: if an arm of the grid does not fit, or several do.
    """
    arms = {row.arm: row for row in whole}
    found = []
    for row in short:
        alike = [row.arm] if row.arm in arms else [arm for arm, each in arms.items() if _kind(each) == _kind(row)]
        if len(alike) != 1:
            what = (
                f"is like {len(alike)} arms of the grid ({', '.join(alike)})" if alike else "is not an arm of the grid"
            )
            raise DataError(
                f"{row.arm} of the squeezed runs {what}. Expected one with its adapter, rate and method, in a study of "
                f"the grid; name these first."
            )
        found.append(replace(row, arm=alike[0], schedule=SQUEEZED))
    return found


def _kind(row: CurveRow) -> tuple[str, str, str | None, float | None]:
    return row.model, row.method.partition(":")[0], row.adapter, row.lr


def squeezed_curves(rows: Sequence[CurveRow]) -> Curves:
    """Build the grid of some rows, with the scores of squeezed runs in place of early ones of whole runs.

    Raises:
        DataError: as :func:`gradgate.study.replay.curves.as_curves`, or if a squeezed run is missing.
    """
    curves = as_curves(rows)
    runs = dict(curves.runs)
    notes = list(_with_squeezed(curves.grid, runs, rows_by_run([row for row in rows if row.schedule == SQUEEZED])))
    return replace(curves, runs=runs, notes=(*curves.notes, *notes))


def _with_squeezed(grid: FullGrid, runs: dict[RunKey, Progress], short: dict[RunKey, list[CurveRow]]) -> Iterator[str]:
    """Put the scores of squeezed runs in the place of early scores. Yields notes on which these are.

    Raises:
        DataError: if a squeezed run is as long as none of the lengths that are compared, or one of them is missing.
    """
    for task, steps in grid.steps.items():
        lengths = {grid.until(task, eighths): eighths for eighths in EIGHTHS[:-1]}
        there = {row.of_steps for key, rows in short.items() if key.task == task for row in rows}
        if not there or not there <= set(lengths):
            given = ", ".join(map(str, sorted(there))) or "no"
            raise DataError(
                f"Squeezed runs of {task} have {given} steps. Expected {' or '.join(map(str, lengths))}, the lengths "
                f"at which whole runs of {steps} are compared."
            )
        for key in [key for key, run in runs.items() if key.task == task and not run.has_failed]:
            scores = _best_by_length(short.get(key, ()), grid)
            lacking = ", ".join(str(length) for length in sorted(there - set(scores)))
            if lacking:
                raise DataError(
                    f"{key.arm} on {task} with seed {key.seed} has no squeezed run of {lacking} steps. Finish that "
                    f"study first."
                )
            runs[key] = _with_early(runs[key], scores, grid, task)
        yield (
            f"scores of {task} at {', '.join(f'{lengths[each]}/8' for each in sorted(there))} of the schedule are of "
            f"squeezed runs, which cannot be resumed: the steps that each of them repeats are not counted"
        )


def _best_by_length(rows: Iterable[CurveRow], grid: FullGrid) -> dict[int, float]:
    """Return steps of squeezed runs to their best score."""
    better, found = (max if grid.higher_is_better else min), dict[int, float]()
    for row in rows:
        if row.dev is not None:
            found[row.of_steps] = better(found.get(row.of_steps, row.dev), row.dev)
    return found


def _with_early(run: Progress, scores: dict[int, float], grid: FullGrid, task: str) -> Progress:
    rungs = [rung for eighths in EIGHTHS if (rung := grid.until(task, eighths)) >= min(run.dev)]
    cut = {rung: score for rung in rungs if (score := run.best(rung, grid.higher_is_better)) is not None}
    return SqueezedRun(run.step, {**cut, **scores}, run.seconds, run.state, run.losses)
