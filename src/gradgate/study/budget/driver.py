"""Run a budgeted study: read the run folders, pick the next runs, train them, repeat.

Nothing is remembered between two rounds: the folders of the runs decide, so that a study that was killed resumes with
the same decisions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from gradgate.errors import FolderLockedError, RunError, UsageError
from gradgate.runs.records import TaskRecord
from gradgate.settings.budget import Budget
from gradgate.study.budget import Allocator, FullGrid, Observed, RunKey, Targets
from gradgate.study.budget.file import BudgetRecord, read_budget, write_budget
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.budget.observe import observe, task_name
from gradgate.study.grid import Grid, GridRun
from gradgate.study.results import StudyResults, read_study
from gradgate.study.search import Space
from gradgate.study.study_file import locked_folder, read_study_file
from gradgate.study.workers.queue import Queue
from gradgate.tasks.metrics.page_unit import page_factor

_OUT_OF_TIME = "The time was up before the planned test, so nothing was tested."


def arms_of(space: Space) -> tuple[dict[str, Any], ...]:
    """Return the settings of a search as arms of each method.

    Raises:
        UsageError: for options of a search before the comparison, which a budget does not have.
    """
    passed = [
        flag
        for flag, is_passed in (("prune=True", space.prune), (f"search_seeds={len(space.seeds)}", len(space.seeds) > 1))
        if is_passed
    ]
    if passed:
        raise UsageError(
            f"{' and '.join(passed)}: with a budget, there is no search before the comparison. Each method with "
            "each setting is an arm with the same seeds, and the worse ones are dropped. Leave "
            f"{' and '.join(passed)} out."
        )
    return space.record().settings


def check_budgeted(grids: Sequence[Grid], tasks: Sequence[TaskRecord]) -> None:
    """Raise UsageError if a budget cannot be spent on these grids."""
    if any(grid.search is not None for grid in grids):
        raise UsageError(
            f"{grids[0].path} was started with a search for settings before the comparison; with a budget, "
            "settings are arms. Pass another out= for a study with a budget."
        )
    arms = grids[0].arms
    if len(arms) < 2:
        raise UsageError(
            f"A budget decides which of several methods is best, and {arms[0].name} is the only one. Pass another "
            "method=, or leave the budget out."
        )
    metrics = dict.fromkeys(task.metric for task in tasks)
    if len(metrics) > 1:
        raise UsageError(
            f"A budget averages the scores of all tasks, and these have {len(metrics)} different metrics: "
            f"{', '.join(metrics)}. Expected one. Use one study with a budget per metric."
        )


@dataclass(frozen=True)
class BudgetedStudy:
    """A study that is trained in part.

    Attributes:
        folder: of the whole study, which has its queue.
        grids: task to the grid of its part.
        higher_is_better: of the scores.
        metric: of the scores.
    """

    folder: Path
    grids: Mapping[str, Grid]
    higher_is_better: bool
    metric: str

    @classmethod
    def read(cls, folder: Path, parts: Sequence[Path]) -> BudgetedStudy:
        """Read the budgeted study in a folder with these parts; raise RunError if one is damaged."""
        grids = {}
        for path in parts:
            study = read_study_file(path)
            grids[task_name(study)] = Grid.read(path)
        return cls(folder, grids, study.task.metric_higher_is_better, study.task.metric)

    @property
    def runs(self) -> dict[RunKey, GridRun]:
        """Every run of the grid."""
        return {
            RunKey(run.arm.name, task, run.config.seed): run for task, grid in self.grids.items() for run in grid.runs()
        }

    def full_grid(self, steps: Mapping[str, int]) -> FullGrid:
        """Return the grid that the budget is a part of."""
        first = next(iter(self.grids.values()))
        return FullGrid(
            arms=tuple(arm.name for arm in first.arms),
            seeds=first.seeds,
            steps=steps,
            methods={arm.name: arm.without_settings().name for arm in first.arms},
            higher_is_better=self.higher_is_better,
            factor=page_factor(self.metric),
        )

    def results(self) -> dict[str, StudyResults]:
        """Read the results of each task from the folders."""
        return {task: read_study(grid.path) for task, grid in self.grids.items()}


class Deadline(Protocol):
    """Ends a budget by the clock, before its steps are spent.

    Attributes:
        steps: task to optimizer steps of one of its runs.
    """

    steps: Mapping[str, int]

    def in_time(self, batch: Targets, observed: Observed) -> Targets:
        """Return those of some runs that may start now; none if time is up."""

    def raised(self, allocator: Allocator, observed: Observed) -> int:
        """Return the optimizer steps that a plan may have in all once its runs are trained, in place of its own."""


class BudgetDriver:
    """Spends a budget on a study.

    Args:
        study: whose runs are trained.
        queue: of the study.
        train: trains what waits in the queue; returns once nothing waits or runs.
        deadline: asked before runs start; None for a budget of steps alone.
    """

    def __init__(
        self, study: BudgetedStudy, queue: Queue, train: Callable[[], None], deadline: Deadline | None = None
    ) -> None:
        self.study = study
        self._queue = queue
        self._train = train
        self._deadline = deadline
        self._runs = study.runs
        self._forgiven: set[RunKey] = set()
        self._may_raise = False  # not after a final verdict, which would count as an earlier one

    def run(self, budget: Budget) -> BudgetRecord:
        """Train until the verdict is final. Each verdict on the way is written into the study's folder.

        Runs that failed before are tried once more.

        Raises:
            UsageError: if the budget is too small for the grid, or smaller than it was.
            RunError: if no run can be trained.
        """
        self._queue.recover()
        self._queue.hold_back([])
        grid = self.study.full_grid(self._lengths())
        self._forgiven = {key for key, progress in self._observed(grid).items() if progress.has_failed}
        record, allocator = self._begin(budget, grid)
        while True:
            observed = self._observed(grid)
            record, allocator = self._raised(record, allocator, observed)
            if not (batch := self._startable(allocator, observed)):
                break
            self._write(replace(record, verdict=allocator.verdict(observed)))
            self._train_to(batch, grid)
            left = any(run.is_open for run in self._queue.runs())  # another process added them
            if self._observed(grid) == observed and not left:
                raise RunError(
                    f"None of the {len(batch)} runs that the budget asked for made progress. 'gradgate study "
                    f"status {self.study.folder}' shows their state; run the same command again to resume."
                )
        verdict = allocator.verdict(observed)
        if allocator.next(observed):
            verdict = replace(verdict, how=_OUT_OF_TIME)
        record = replace(record, verdict=verdict, final=True)
        self._write(record)
        self._free(record)
        return record

    def _begin(self, budget: Budget, grid: FullGrid) -> tuple[BudgetRecord, Allocator]:
        """Return the budget in steps and its plan; both are the same whenever a study resumes with the same budget."""
        existing = read_budget(self.study.folder)
        pace = existing.pace if existing is not None else None
        if budget.seconds is not None and pace is None:
            pace = self._measured_pace(grid)
        allowed = budget.steps_of(grid.total_steps, pace)
        if budget.seconds is not None:  # what measured the pace is spent
            allowed = max(allowed, len(grid.arms) * grid.seed_steps(1))
        if existing is not None and allowed < existing.steps_allowed:
            raise UsageError(
                f"This budget allows {allowed:,} optimizer steps, and {self.study.folder} was given "
                f"{existing.steps_allowed:,} before. Expected at least as many, because a budget cannot be "
                "lowered. Pass a larger one, or another out=."
            )
        plan = grid.arms, grid.seeds, dict(grid.steps), allowed
        before = existing and (existing.arms, existing.seeds, dict(existing.steps), existing.steps_allowed)
        earlier = existing.earlier_verdicts + (existing.final and plan != before) if existing is not None else 0
        early = existing is None or existing.final or (existing.looks_early and plan == before)
        self._may_raise = self._deadline is not None and (existing is None or not existing.final or plan != before)
        allocator, observed = Allocator(grid, allowed, earlier, early), self._observed(grid)
        self._check_scored(observed, grid, allocator)
        record = BudgetRecord(
            allowance=budget,
            arms=grid.arms,
            seeds=grid.seeds,
            steps=dict(grid.steps),
            steps_allowed=allowed,
            verdict=allocator.verdict(observed),
            promise=allocator.promise,
            pace=pace,
            earlier_verdicts=earlier,
            looks_early=early,
        )
        return record, allocator

    def _raised(self, record: BudgetRecord, allocator: Allocator, observed: Observed) -> tuple[BudgetRecord, Allocator]:
        """Return a larger budget if the runs of this one are trained and time is left."""
        if self._deadline is None or not self._may_raise or allocator.next(observed) or allocator.ended_early(observed):
            return record, allocator
        allowed = self._deadline.raised(allocator, observed)
        if allowed <= allocator.steps_allowed:
            return record, allocator
        larger = allocator.raised_to(allowed)
        raised = replace(
            record,
            allowance=Budget(steps=allowed),
            steps_allowed=allowed,
            promise=larger.promise,
            looks_early=larger.looks_early,
        )
        return raised, larger

    def _check_scored(self, observed: Observed, grid: FullGrid, allocator: Allocator) -> None:
        """Raise UsageError for runs that an earlier command trained past the steps where runs are compared."""
        if allocator.stages[0].eighths == EIGHTHS[-1]:
            return
        for key, progress in observed.items():
            first = grid.until(key.task, allocator.stages[0].eighths)
            if not progress.has_failed and progress.step >= first and min(progress.dev, default=first + 1) > first:
                raise UsageError(
                    f"{key.arm} seed {key.seed} in {self.study.folder} was trained without a budget and has no "
                    f"score on dev up to step {first}, where a budget compares. Pass budget=1 to train every run, "
                    f"or another out=; or start a study with eval_every={first} or less."
                )

    def _observed(self, grid: FullGrid) -> Observed:
        """Return the progress of all runs, without scores after the first step, which one run has from `_lengths`."""
        found = observe(list(self.study.results().values()), self._forgiven)
        first = {task: min(2, grid.until(task, EIGHTHS[0])) for task in grid.steps}
        return {
            key: replace(
                each,
                dev={step: score for step, score in each.dev.items() if step >= first[key.task]},
                losses={step: loss for step, loss in each.losses.items() if step >= first[key.task]},
            )
            for key, each in found.items()
        }

    def _lengths(self) -> dict[str, int]:
        """Return task to steps of a run. If the settings do not say it, train the first step of one run."""
        found = {} if self._deadline is None else dict(self._deadline.steps)
        waiting = {task: [key for key in self._runs if key.task == task] for task in self.study.grids}
        while len(found) < len(waiting):
            for task, result in self.study.results().items():
                known = [steps for cell in result.cells if cell.scores and (steps := cell.scores.cost.steps)]
                known += [total for cell in result.cells if cell.progress and (total := cell.progress.of_steps)]
                said = self.study.grids[task].base.steps
                if said is not None or known:
                    found[task] = known[0] if said is None else said
            lacking = [task for task in waiting if task not in found]
            tried = [waiting[task].pop(0) for task in lacking if waiting[task]]
            if len(tried) < len(lacking):
                raise RunError(
                    f"No run of {', '.join(lacking)} could be trained, so the budget cannot be planned. 'gradgate "
                    f"study failed {self.study.folder}' says why."
                )
            if tried:
                self._add([replace(self._runs[key], until=1) for key in tried])
        return {task: found[task] for task in self.study.grids}

    def _measured_pace(self, grid: FullGrid) -> float:
        """Return the seconds by the clock per step of the first runs, with everything that they do besides training."""
        observed = self._observed(grid)
        allocator = Allocator(grid, len(grid.arms) * grid.seed_steps(EIGHTHS[0]))
        before, began = allocator.spent(observed), time.monotonic()
        if batch := allocator.next(observed):
            self._train_to(batch, grid)
        observed = self._observed(grid)
        steps = allocator.spent(observed) - before
        if steps:
            return (time.monotonic() - began) / steps
        done = [progress for progress in observed.values() if progress.seconds]
        if not done:
            raise RunError(
                f"No run of {self.study.folder} could be trained, so the time cannot be converted to steps. "
                f"'gradgate study failed {self.study.folder}' says why."
            )
        return sum(each.seconds or 0.0 for each in done) / sum(each.step for each in done)

    def _startable(self, allocator: Allocator, observed: Observed) -> Targets:
        """Return the runs to train now; none once the verdict is final, or time is up."""
        batch = allocator.next(observed)
        clipped = self._clipped(batch, observed, allocator) if batch else batch
        return clipped if self._deadline is None else self._deadline.in_time(clipped, observed)

    def _clipped(self, batch: Targets, observed: Observed, allocator: Allocator) -> Targets:
        """Return the runs up to the next step where all runs are scored, which a raised budget may compare at."""
        if allocator.stages[0].eighths == EIGHTHS[-1]:
            return batch
        clipped = {}
        for key, until in batch.items():
            done = observed[key].step if key in observed else 0
            each = self._runs[key].config.eval_every
            first = allocator.stages[0].eighths
            lengths = (allocator.grid.until(key.task, eighths) for eighths in EIGHTHS if eighths >= first)
            unscored = (length for length in lengths if length > done and (not each or length % each))
            clipped[key] = min([until, *unscored])
        return clipped

    def _train_to(self, batch: Targets, grid: FullGrid) -> None:
        self._forgiven -= batch.keys()
        self._add(
            [
                replace(self._runs[key], until=None if until >= grid.steps[key.task] else until)
                for key, until in batch.items()
            ]
        )

    def _add(self, runs: list[GridRun]) -> None:
        self._queue.hold_back(runs)
        self._queue.add(runs)
        self._train()

    def _write(self, record: BudgetRecord) -> None:
        with locked_folder(self.study.folder):
            write_budget(self.study.folder, record)

    def _free(self, record: BudgetRecord) -> None:
        """Free the disk of paused runs whose arms left. They start over if more budget brings them back."""
        left = {departure.arm for departure in record.verdict.departures if departure.place is not None}
        for key, run in self._runs.items():
            if key.arm in left and run.folder.pauses_file.is_file() and not run.folder.finished:
                with suppress(FolderLockedError):
                    run.folder.abandon()
