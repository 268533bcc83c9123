"""Short runs whose schedules end with them, beside the whole runs of one grid: is an early score honest?

A budget compares whole schedules that were cut. Runs that are as short, with the schedule squeezed into them, show what
that costs. They cannot go on, so that no budget is spent on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gradgate.errors import DataError
from gradgate.study.budget import FullGrid, Progress, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.curve_rows import SQUEEZED, CurveRow


@dataclass(frozen=True)
class SqueezedRun(Progress):
    """A run whose score at each length is that of a run of its own, and not the best so far."""

    def best(self, until: int, higher: bool) -> float | None:
        """The score of the longest run up to a step."""
        at = max((step for step in self.dev if step <= until), default=None)
        return None if at is None or self.step < until else self.dev[at]


def as_squeezed(short: Iterable[CurveRow], whole: Sequence[CurveRow]) -> list[CurveRow]:
    """The rows of short runs, as such, with the names that their arms have among whole ones.

    A method whose options count steps has other ones in a short run: an arm that the grid lacks is its one arm with the
    same adapter, rate and method but for the options.

    Raises:
        DataError: where that is no arm of the grid, or several.
    """
    arms = {row.arm: row for row in whole}
    found = []
    for row in short:
        alike = [row.arm] if row.arm in arms else [arm for arm, each in arms.items() if _kind(each) == _kind(row)]
        if len(alike) != 1:
            what = f"is like {len(alike)} arms of the grid ({', '.join(alike)})" if alike else "is no arm of the grid"
            raise DataError(
                f"{row.arm} of the squeezed runs {what}. Expected one with its adapter, rate and method, in a study of "
                f"the grid; name these first."
            )
        found.append(replace(row, arm=alike[0], schedule=SQUEEZED))
    return found


def _kind(row: CurveRow) -> tuple[str, str, str | None, float | None]:
    return row.model, row.method.partition(":")[0], row.adapter, row.lr


def with_squeezed(grid: FullGrid, runs: dict[RunKey, Progress], short: dict[RunKey, list[CurveRow]]) -> Iterator[str]:
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
            f"squeezed runs, which cannot go on: the steps that each of them takes anew are not counted"
        )


def _best_by_length(rows: Iterable[CurveRow], grid: FullGrid) -> dict[int, float]:
    """Steps of squeezed runs to their best score."""
    better, found = (max if grid.higher_is_better else min), dict[int, float]()
    for row in rows:
        if row.dev is not None:
            found[row.of_steps] = better(found.get(row.of_steps, row.dev), row.dev)
    return found


def _with_early(run: Progress, scores: dict[int, float], grid: FullGrid, task: str) -> Progress:
    rungs = [rung for eighths in EIGHTHS if (rung := grid.until(task, eighths)) >= min(run.dev)]
    cut = {rung: score for rung in rungs if (score := run.best(rung, grid.higher_is_better)) is not None}
    return SqueezedRun(run.step, {**cut, **scores}, run.seconds, losses=run.losses)
