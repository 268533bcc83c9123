"""Forecast a run or a comparison: what would be trained, for how long, and in how much memory and disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gradgate.errors import GradgateError
from gradgate.runs.folder import RunFolder
from gradgate.settings.arms.arm import Arm
from gradgate.settings.budget import Budget
from gradgate.study.budget import Allocator, FullGrid
from gradgate.study.grid import Grid, GridRun
from gradgate.study.recommend.fitting import free_bytes
from gradgate.study.search import all_runs, undecided
from gradgate.study.spreads import Decidable, decidable

if TYPE_CHECKING:
    from gradgate.runs.records import TaskRecord
    from gradgate.settings.run import RunConfig
    from gradgate.study.planning import Execution, PlannedCondition, StudyRequest
    from gradgate.study.progress import StudyProgress
    from gradgate.training.preview import Preview

_FLOAT = 4  # bytes
_FORWARD = 1 / 3  # of a step, as the backward pass takes twice as long as the forward one


@dataclass(frozen=True)
class ArmForecast:
    """The cost of one arm's runs.

    Attributes:
        label: the arm's name, with its task, model or size if the study has several.
        runs: that are not finished.
        steps: optimizer steps of each.
        step_seconds: of one of its first steps, on this machine as busy as it is; None where ``trouble`` says why.
        peak_bytes: of weights, gradients, states and activations, as ``gradgate memory`` estimates; None where it
            cannot be.
        trouble: why its first steps could not be trained.
        tapt: whether its runs are first pretrained on the task's texts, which no figure here counts.
    """

    label: str
    runs: int
    steps: int
    step_seconds: float | None
    peak_bytes: int | None
    trouble: str | None = None
    tapt: bool = False

    @property
    def seconds(self) -> float:
        """The seconds of training of all its runs together."""
        return self.runs * self.steps * (self.step_seconds or 0.0)


@dataclass(frozen=True)
class Forecast:
    """The cost of a comparison.

    Attributes:
        arms: one for each arm of each part.
        finished: existing runs, which stay.
        scoring_seconds: of all scores on dev and test, a third of a step for each batch.
        workers: runs at the same time.
        share: of the grid's steps that a budget allows; None without one, or with one by the clock.
        free_memory: bytes, of the device that trains.
        disk_bytes: of what is kept, at most.
        free_disk: bytes, where the study goes.
        decides: what the seeds can decide, for each task and model; empty without a second arm.
        promise: what the plan of the budget can decide, in words; empty without a budget.
    """

    arms: tuple[ArmForecast, ...]
    finished: int
    scoring_seconds: float
    workers: int
    share: float | None
    free_memory: int
    disk_bytes: int
    free_disk: int
    decides: tuple[Decidable, ...] = ()
    promise: str = ""

    @property
    def runs(self) -> int:
        """All that are to be trained, without those whose first steps could not be."""
        return sum(arm.runs for arm in self.arms if arm.trouble is None)

    @property
    def seconds(self) -> float:
        """The seconds by the clock, with the workers and within the budget."""
        share = 1.0 if self.share is None else self.share
        return share * (sum(arm.seconds for arm in self.arms) + self.scoring_seconds) / self.workers

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"runs": self.runs, "seconds": self.seconds}


def forecast(comparison: StudyRequest, out: Path, progress: StudyProgress, execution: Execution) -> Forecast:
    """Time the first steps of each arm, and estimate the rest. Nothing is written.

    Args:
        comparison: what is compared.
        out: the folder of the study.
        progress: is told of each arm that is timed.
        execution: where and how to train.

    Raises:
        GradgateError: as :func:`gradgate.study.planning.plan` does.
    """
    from gradgate.study.planning import plan  # with the study's store

    planned = plan(comparison, out, progress, execution).planned
    grids = [part.grid for part in planned]
    runs = [*all_runs(grids), *(run for grid in grids for run in _after_search(grid))]
    arms, scoring, disk = [], 0.0, 0
    for part in planned:
        own = [run for run in runs if run.folder.path.is_relative_to(part.grid.path)]
        for each, every in _by_arm(own).items():
            group = [run for run in every if not run.folder.finished]
            if not group:
                continue
            arm = _arm_or_why(part.grid.labelled(each.name), group[0].config, len(group), part.seen.task, progress)
            arms.append(arm)
            scoring += arm.runs * _scoring(group[0].config, part.seen.task.rows, arm)
            disk += sum(_disk(run.config, part.seen) for run in group)
    return Forecast(
        arms=tuple(arms),
        finished=sum(run.folder.finished for run in runs),
        scoring_seconds=scoring,
        workers=execution.workers,
        share=_share(comparison.budget, arms),
        free_memory=free_bytes(planned[0].grid.base),
        disk_bytes=disk,
        free_disk=shutil.disk_usage(_there(out)).free,
        decides=tuple(_decides(part) for part in planned if len(part.grid.arms) > 1),
        promise=_promise(comparison.budget, planned, arms, execution.workers),
    )


def forecast_run(config: RunConfig, out: Path, progress: StudyProgress) -> Forecast:
    """Time the first steps of one run, and estimate the rest. Nothing is written.

    Args:
        config: of the run.
        out: its folder.
        progress: is told that it is timed.

    Raises:
        GradgateError: for data, a model or settings that the run cannot work with.
    """
    from gradgate.training.preview import preview  # imports torch

    config.check_adapter()
    adapters = () if config.adapter is None else (config.adapter,)
    seen = preview(config, adapters)
    seen.check_adapted([config.arm])
    for note in seen.notes:
        progress.note(note)
    config.method.check(seen.layers.at(config.method.traits.unit))
    is_finished = RunFolder(out).is_done(config)
    arms = () if is_finished else (_arm(config.arm.name, config, 1, seen.task, progress),)
    return Forecast(
        arms=arms,
        finished=int(is_finished),
        scoring_seconds=sum(_scoring(config, seen.task.rows, arm) for arm in arms),
        workers=1,
        share=None,
        free_memory=free_bytes(config),
        disk_bytes=_disk(config, seen) * len(arms),
        free_disk=shutil.disk_usage(_there(out)).free,
    )


def _decides(part: PlannedCondition) -> Decidable:
    """Return what the seeds of one part can decide."""
    grid, task = part.grid, part.seen.task
    tests = len(grid.arms) - 1
    return decidable(grid.condition, task.name, task.metric, grid.base.model, len(grid.seeds), tests, grid.path)


def _disk(config: RunConfig, seen: Preview) -> int:
    """Return the bytes of a run's model, and of the weights of each evaluation, as far as they are kept; at most."""
    kept = int(bool(config.keep_model))
    if config.keep_checkpoints:
        rows = seen.task.rows
        epochs = float(config.length.get("num_train_epochs", 1))
        kept += evaluations(config, rows, config.steps or ceil(epochs * _steps_per_epoch(config, rows)))
    return kept * _FLOAT * seen.model.parameters


def _after_search(grid: Grid) -> list[GridRun]:
    """Return the runs of arms whose setting is not found yet, with the study's own settings in its place."""
    return replace(grid, search=None).runs_of(undecided(grid)) if grid.search is not None else []


def _by_arm(runs: Iterable[GridRun]) -> dict[Arm, list[GridRun]]:
    """Return the runs of each arm."""
    found: dict[Arm, list[GridRun]] = {}
    for run in runs:
        found.setdefault(run.arm, []).append(run)
    return found


def _arm_or_why(name: str, config: RunConfig, runs: int, task: TaskRecord, progress: StudyProgress) -> ArmForecast:
    """Time the first steps of an arm, or say why they could not be trained: the other arms of a study may be."""
    try:
        return _arm(name, config, runs, task, progress)
    except GradgateError as error:
        return ArmForecast(
            name, runs, config.steps or 0, None, _peak(config, task), str(error), config.tapt is not None
        )


def _arm(name: str, config: RunConfig, runs: int, task: TaskRecord, progress: StudyProgress) -> ArmForecast:
    """Time the first steps of an arm, and estimate its peak."""
    from gradgate.training.first_steps import time_first_steps  # imports torch

    progress.note(f"timing the first steps of {name}")
    first = time_first_steps(config)
    return ArmForecast(name, runs, first.total, first.seconds, _peak(config, task), tapt=config.tapt is not None)


def _peak(config: RunConfig, task: TaskRecord) -> int | None:
    """Return the estimated peak in bytes; None if it cannot be estimated."""
    from gradgate.memory.request import estimate_run  # imports torch

    try:
        return estimate_run(config, task.kind, task.source).peak_bytes
    except GradgateError:
        return None


def evaluations(config: RunConfig, rows: Mapping[str, int], steps: int) -> int:
    """Return how often a run of this number of steps scores dev: once per epoch by default."""
    return max(1, ceil(steps / (config.eval_every or _steps_per_epoch(config, rows))))


def _steps_per_epoch(config: RunConfig, rows: Mapping[str, int]) -> int:
    in_train = rows.get("train", 0)
    return max(1, ceil(min(in_train, config.train_size or in_train) / (config.batch_size * config.accumulate)))


def _scoring(config: RunConfig, rows: dict[str, int], arm: ArmForecast) -> float:
    """Return the seconds of one run's scores: dev at each evaluation, every test split once."""
    tests = 0 if config.skip_test else sum(count for split, count in rows.items() if split not in ("train", "dev"))
    batches = ceil((rows.get("dev", 0) * evaluations(config, rows, arm.steps) + tests) / config.batch_size)
    return batches * _FORWARD * (arm.step_seconds or 0.0)


def _promise(
    budget: Budget | None, planned: Sequence[PlannedCondition], arms: Sequence[ArmForecast], workers: int
) -> str:
    """Return what the plan of a budget can decide, in words; a time is converted by the steps that were timed."""
    if budget is None or not arms:
        return ""
    grid = planned[0].grid
    longest = max(arm.steps for arm in arms)
    if not longest:  # none of their first steps could be taken
        return ""
    steps = {str(place): longest for place, _ in enumerate(planned)}
    full = FullGrid(arms=tuple(arm.name for arm in grid.arms), seeds=grid.seeds, steps=steps)
    timed = [arm.step_seconds for arm in arms if arm.step_seconds]
    pace = fmean(timed) / workers if timed else None
    if budget.seconds is not None and pace is None:
        return ""
    allowed = budget.steps_of(full.total_steps, pace)
    if budget.seconds is not None:  # what measures the pace is spent in any case
        allowed = max(allowed, len(full.arms) * full.seed_steps(1))
    return Allocator(full, allowed).promise


def _share(budget: Budget | None, arms: Sequence[ArmForecast]) -> float | None:
    total = sum(arm.runs * arm.steps for arm in arms)
    if budget is None or budget.seconds is not None or not total:
        return None
    return budget.steps_of(total, None) / total


def _there(path: Path) -> Path:
    """Return the nearest existing parent folder."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
