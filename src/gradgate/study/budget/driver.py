"""Train the part of a grid that a budget pays for: what the folders hold, the next runs, train, and again.

Nothing is remembered between two looks: the folders of the runs decide, so that a study that was killed goes on with
the same decisions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from gradgate.errors import FolderLockedError, RunError, UsageError
from gradgate.runs.records import TaskRecord
from gradgate.settings.budget import Budget
from gradgate.study.arms import Arm
from gradgate.study.budget import Allocator, FullGrid, Observed, Request, RunKey
from gradgate.study.budget.file import BudgetRecord, read_budget, write_budget
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.budget.observe import observe, task_name
from gradgate.study.grid import Grid, GridRun
from gradgate.study.results import StudyResults, read_study
from gradgate.study.search import Space
from gradgate.study.study_file import locked_folder, read_study_file
from gradgate.study.workers.queue import Queue


def arms_of(space: Space) -> tuple[dict[str, Any], ...]:
    """The settings of a search as arms of each method.

    Raises:
        UsageError: for what a search does before a comparison, which a budget does not have.
    """
    given = [
        flag
        for flag, is_given in (("--prune", space.prune), (f"--search-seeds {len(space.seeds)}", len(space.seeds) > 1))
        if is_given
    ]
    if given:
        raise UsageError(
            f"{' and '.join(given)}: with a budget, settings are not searched first. Each is an arm of each method, "
            f"with the seeds of all, and the worse ones leave. Leave {' and '.join(given)} out."
        )
    return space.record().settings


def check_budgeted(grids: Sequence[Grid], tasks: Sequence[TaskRecord]) -> None:
    """UsageError if a budget cannot be spent on these."""
    if any(grid.search is not None for grid in grids):
        raise UsageError(
            f"{grids[0].path} was begun with a search of settings before its comparison, and with a budget settings "
            f"are arms. Give another --out for a study with a budget."
        )
    arms = grids[0].arms
    if len(arms) < 2:
        raise UsageError(
            f"A budget is spent on which of several methods is the best, and there is only {arms[0].label}. Give "
            f"another one with -m, or leave the budget out."
        )
    metrics = dict.fromkeys(task.metric for task in tasks)
    if len(metrics) > 1:
        raise UsageError(
            f"A budget averages the scores of tasks as they are, and these have {len(metrics)} metrics: "
            f"{', '.join(metrics)}. Expected one. Give a study and a budget to each metric."
        )


@dataclass(frozen=True)
class BudgetedStudy:
    """A study that is trained in part.

    Attributes:
        folder: of the whole study, which has its queue.
        grids: task to the grid of its part.
        higher_is_better: of the scores.
    """

    folder: Path
    grids: Mapping[str, Grid]
    higher_is_better: bool

    @classmethod
    def read(cls, folder: Path, parts: Sequence[Path]) -> BudgetedStudy:
        """The budgeted study in a folder with these parts; RunError if one is damaged."""
        grids = {}
        for path in parts:
            study = read_study_file(path)
            grids[task_name(study)] = Grid.read(path)
        return cls(folder, grids, study.task.metric_higher_is_better)

    @property
    def runs(self) -> dict[RunKey, GridRun]:
        """Every run of the grid."""
        return {
            RunKey(arm.label, task, seed): run
            for task, grid in self.grids.items()
            for (seed, arm), run in zip(product(grid.seeds, grid.arms), grid.runs(), strict=True)
        }

    def full_grid(self, steps: Mapping[str, int]) -> FullGrid:
        """What the budget is a part of."""
        first = next(iter(self.grids.values()))
        return FullGrid(
            arms=tuple(arm.label for arm in first.arms),
            seeds=first.seeds,
            steps=steps,
            methods={arm.label: _without_rate(arm) for arm in first.arms},
            higher_is_better=self.higher_is_better,
        )

    def results(self) -> dict[str, StudyResults]:
        """What the folders hold, for each task."""
        return {task: read_study(grid.path) for task, grid in self.grids.items()}


def _without_rate(arm: Arm) -> str:
    """The label of an arm but for its rate or setting: what arms have in common that are one method at several."""
    name, _, options = (arm.adapter or "").partition(":")
    kept = ",".join(option for option in options.split(",") if not option.startswith("lr="))
    adapter = ":".join(filter(None, (name, kept)))
    return Arm(arm.method, adapter or None).label


class BudgetDriver:
    """Spends a budget on a study.

    Args:
        study: whose runs are trained.
        queue: of the study.
        train: trains what waits in the queue; returns when nothing waits or runs any more.
    """

    def __init__(self, study: BudgetedStudy, queue: Queue, train: Callable[[], None]) -> None:
        self.study = study
        self._queue = queue
        self._train = train
        self._runs = study.runs
        self._forgiven: set[RunKey] = set()

    def run(self, budget: Budget) -> BudgetRecord:
        """Train until the verdict stands. It is written into the study's folder, as is all that leads to it.

        Runs that had failed before are tried once more.

        Raises:
            UsageError: if the budget is too small for the grid, or smaller than it was.
            RunError: if no run can be trained.
        """
        self._queue.recover()
        self._queue.hold_back([])
        grid = self.study.full_grid(self._lengths())
        self._forgiven = {key for key, progress in self._observed(grid).items() if progress.has_failed}
        record, allocator = self._begin(budget, grid)
        while batch := allocator.next(observed := self._observed(grid)):
            self._write(replace(record, verdict=allocator.verdict(observed)))
            self._train_to(self._clipped(batch, observed, allocator), grid)
            left = any(run.state in ("waiting", "running") for run in self._queue.runs())  # another process added them
            if self._observed(grid) == observed and not left:
                raise RunError(
                    f"None of the {len(batch)} runs that the budget asked for got any further. 'gradgate study status "
                    f"{self.study.folder}' says what they do; run the same command again to go on."
                )
        record = replace(record, verdict=allocator.verdict(observed), final=True)
        self._write(record)
        self._free(record)
        return record

    def _begin(self, budget: Budget, grid: FullGrid) -> tuple[BudgetRecord, Allocator]:
        """The budget in steps, and its plan; both are the same whenever the study goes on with the same budget."""
        held = read_budget(self.study.folder)
        pace = held.pace if held is not None else None
        if budget.seconds is not None and pace is None:
            pace = self._measured_pace(grid)
        allowed = budget.steps_of(grid.total_steps, pace)
        if budget.seconds is not None:  # what measured the pace is spent
            allowed = max(allowed, len(grid.arms) * grid.seed_steps(1))
        if held is not None and allowed < held.steps_allowed:
            raise UsageError(
                f"This budget allows {allowed:,} optimizer steps, and {self.study.folder} was given "
                f"{held.steps_allowed:,} before. Expected as many or more: a budget is raised, not lowered. Give a "
                f"larger one, or another --out."
            )
        plan = grid.arms, grid.seeds, dict(grid.steps), allowed
        is_same = held is None or plan == (held.arms, held.seeds, dict(held.steps), held.steps_allowed)
        earlier = 0 if held is None else held.earlier_verdicts + (held.final and not is_same)
        allocator, observed = Allocator(grid, allowed, earlier), self._observed(grid)
        self._check_scored(observed, grid, allocator)
        record = BudgetRecord(
            allowance=budget,
            arms=grid.arms,
            seeds=grid.seeds,
            steps=dict(grid.steps),
            steps_allowed=allowed,
            verdict=allocator.verdict(observed),
            pace=pace,
            earlier_verdicts=earlier,
        )
        return record, allocator

    def _check_scored(self, observed: Observed, grid: FullGrid, allocator: Allocator) -> None:
        """UsageError for runs that an earlier command trained past the steps where runs are compared."""
        if allocator.stages[0].eighths == EIGHTHS[-1]:
            return
        for key, progress in observed.items():
            first = grid.until(key.task, EIGHTHS[0])
            if not progress.has_failed and progress.step >= first and min(progress.dev, default=first + 1) > first:
                raise UsageError(
                    f"{key.arm} seed {key.seed} in {self.study.folder} was trained without a budget and has no score "
                    f"on dev up to step {first}, where a budget compares. Give --budget 1 to train every run, or "
                    f"another --out; or begin a study with --eval-every {first} or less."
                )

    def _observed(self, grid: FullGrid) -> Observed:
        """What the folders hold.

        A score after the first step, which one run has that told the length of all, is left out.
        """
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
        """Task to steps of a run. Where the settings do not say it, the first step of one run does."""
        found: dict[str, int] = {}
        waiting = {task: [key for key in self._runs if key.task == task] for task in self.study.grids}
        while len(found) < len(waiting):
            for task, result in self.study.results().items():
                known = [cell.scores.cost.steps for cell in result.cells if cell.scores]
                known += [cell.reached.of_steps for cell in result.cells if cell.reached]
                said = self.study.grids[task].base.steps
                if said is not None or known:
                    found[task] = known[0] if said is None else said
            lacking = [task for task in waiting if task not in found]
            tried = [waiting[task].pop(0) for task in lacking if waiting[task]]
            if len(tried) < len(lacking):
                raise RunError(
                    f"No run of {', '.join(lacking)} could be trained, so that the budget cannot be planned. "
                    f"'gradgate study failed {self.study.folder}' says why."
                )
            if tried:
                self._add([replace(self._runs[key], until=1) for key in tried])
        return {task: found[task] for task in self.study.grids}

    def _measured_pace(self, grid: FullGrid) -> float:
        """Seconds by the clock for a step of the first runs, with all that they take beside their training."""
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
                f"No run of {self.study.folder} could be trained, so that a time cannot be turned into steps. "
                f"'gradgate study failed {self.study.folder}' says why."
            )
        return sum(each.seconds or 0.0 for each in done) / sum(each.step for each in done)

    def _clipped(self, batch: Sequence[Request], observed: Observed, allocator: Allocator) -> list[Request]:
        """The same up to the next step where all runs are scored, which a raised budget may compare at."""
        if allocator.stages[0].eighths == EIGHTHS[-1]:
            return list(batch)
        clipped = []
        for request in batch:
            done = observed[request.key].step if request.key in observed else 0
            each = self._runs[request.key].config.eval_every
            rungs = (allocator.grid.until(request.task, eighths) for eighths in EIGHTHS)
            unscored = (rung for rung in rungs if rung > done and (not each or rung % each))
            clipped.append(request._replace(until_step=min([request.until_step, *unscored])))
        return clipped

    def _train_to(self, batch: Sequence[Request], grid: FullGrid) -> None:
        self._forgiven -= {request.key for request in batch}
        whole = {request: request.until_step >= grid.steps[request.task] for request in batch}
        self._add([replace(self._runs[each.key], until=None if whole[each] else each.until_step) for each in batch])

    def _add(self, runs: list[GridRun]) -> None:
        self._queue.hold_back(runs)
        self._queue.add(runs)
        self._train()

    def _write(self, record: BudgetRecord) -> None:
        with locked_folder(self.study.folder):
            write_budget(self.study.folder, record)

    def _free(self, record: BudgetRecord) -> None:
        """Free the disk of paused runs whose arms left. They begin anew if more budget brings them back."""
        left = {departure.arm for departure in record.verdict.departures if departure.place is not None}
        for key, run in self._runs.items():
            if key.arm in left and run.folder.pauses_file.is_file() and not run.folder.finished:
                with suppress(FolderLockedError):
                    run.folder.abandon()
