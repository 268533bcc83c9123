"""Plan a comparison: expand the request into grids and validate them against the data and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.errors import UsageError
from gradgate.layers import select
from gradgate.settings.arms.adapter import AdapterSetting, read_adapter
from gradgate.settings.arms.arm import Arm, check_adapters, read_arm
from gradgate.settings.budget import Budget
from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import RunConfig
from gradgate.study import search as searches
from gradgate.study.arms import check_batch, check_distinct, cross
from gradgate.study.budget.driver import arms_of, check_budgeted
from gradgate.study.budget.file import read_budget
from gradgate.study.conditions import Condition, Conditions
from gradgate.study.grid import Grid, check_counts, existing_settings, settings_of
from gradgate.study.imported import refuse_training
from gradgate.study.progress import StudyProgress
from gradgate.study.request import subjects_of
from gradgate.study.search import GENERATION_RATES, Space, read_space
from gradgate.study.shared_rate import shared_rate
from gradgate.study.study_file import STUDY_FILE, SearchRecord
from gradgate.study.sweep import FreezeSweep, read_sweep
from gradgate.study.workers.ray import RayCluster
from gradgate.study.workers.store import Heartbeat

if TYPE_CHECKING:
    from gradgate.training.preview import Preview


@dataclass(frozen=True)
class StudyRequest:
    """Everything that a comparison crosses: tasks, models, training sizes, adapters, methods and seeds.

    Attributes:
        base: the settings that all runs share; its method, adapter and seed do not count. Without ``threads``, each
            run takes its worker's part of the CPU cores, or what the study was started with.
        methods: the first is the one that the report compares the others to. Those with an adapter of their own are not
            crossed with ``adapters``. Texts are read, here and in ``adapters``.
        seeds: one run of each method for each.
        sweep: a row of methods in one word, as ``"freeze:step=3"``; its reference comes before ``methods``. See
            :mod:`gradgate.study.sweep`.
        adapters: None is the model itself, as is an empty sequence in a new study. The first method with the first
            adapter is the reference.
        conditions: several tasks, models and training sizes, each with each, in place of the base's; in a study that
            has others they are added to these. See :mod:`gradgate.study.conditions` for the folders of their runs.
        search: settings to try first for each method; its runs take its best setting on dev. A study that was started
            with one resumes it. A new one of generation, without a budget, searches learning
            rates if ``base`` gives none. With a budget nothing is searched first: each setting is an arm of each
            method.
        budget: only what leads to the best arm is trained, in this many steps at most
            (:mod:`gradgate.study.budget.driver`). The verdict is in ``budget.json``. A budgeted study resumes with the
            same budget or a larger one.
    """

    base: RunConfig
    methods: Sequence[Arm]
    seeds: Sequence[int]
    sweep: str | None = None
    adapters: Sequence[AdapterSetting | None] = ()
    conditions: Conditions | None = None
    search: Space | None = None
    budget: Budget | None = None

    @classmethod
    def of(cls, asked: CompareSettings, out: Path) -> StudyRequest:
        """Return what settings ask a study in a folder to compare.

        Raises:
            GradgateError: for tasks, models or settings to search that cannot be.
        """
        base, conditions = subjects_of(asked, out)
        search = read_space(asked.search, asked.trials, asked.search_seeds, asked.prune) if asked.search else None
        return cls(base, asked.method, asked.seeds, asked.sweep, asked.adapter, conditions, search, asked.total_budget)

    def __post_init__(self) -> None:
        """Read methods and adapters that are given as texts."""
        object.__setattr__(self, "methods", tuple(map(read_arm, self.methods)))
        object.__setattr__(self, "adapters", tuple(map(read_adapter, self.adapters)))


@dataclass(frozen=True)
class Execution:
    """Settings for where and how the runs of a study are trained.

    Attributes:
        workers: runs that are trained at the same time on this machine.
        ray: a cluster to train on, instead of workers here.
        queue: address of a database server that keeps the queue; see :func:`gradgate.study.workers.store.open_store`.
        heartbeat: of a study that is begun; None takes the default. Later commands keep it.
    """

    workers: int = 1
    ray: RayCluster | None = None
    queue: str | None = None
    heartbeat: Heartbeat | None = None

    @classmethod
    def of(cls, asked: CompareSettings) -> Execution:
        """Return where and how settings ask to train."""
        ray = asked.ray
        gpus = 0.0 if asked.run.device == "cpu" else asked.gpus_per_run
        cluster = None if ray is None else RayCluster(ray, gpus, asked.run.threads or 1)
        heartbeat = Heartbeat.within(asked.grace) if "grace" in asked.model_fields_set else None
        return cls(asked.workers, cluster, asked.queue, heartbeat)

    @property
    def cores(self) -> int:
        """CPU cores of one run."""
        import torch  # wrong usage is refused before this

        return self.ray.cpus_per_run if self.ray is not None else max(1, torch.get_num_threads() // self.workers)


@dataclass(frozen=True)
class PlannedCondition:
    """The grid of one task, model and training size, with the preview of its data and model."""

    grid: Grid
    seen: Preview

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values of the task's metric are better."""
        return self.seen.task.metric_higher_is_better


@dataclass(frozen=True)
class StudyLayout:
    """The grids that a comparison trains.

    Attributes:
        conditions: tasks, models and training sizes, including those that the study has already.
        planned: the grid of each.
    """

    conditions: Conditions
    planned: list[PlannedCondition]

    @property
    def folders(self) -> list[Path]:
        """The folders of the grids; the study's own if it has one task, model and training size."""
        return [each.grid.path for each in self.planned]


def plan(comparison: StudyRequest, out: Path, progress: StudyProgress, execution: Execution) -> StudyLayout:
    """Plan a comparison: expand the request into grids, and check them against the data and the models.

    Nothing is written.

    Args:
        comparison: what is compared.
        out: the study folder.
        progress: receives notes about defaults that the plan filled in.
        execution: where and how to train.

    Raises:
        GradgateError: if the data, the model or a method cannot work.
    """
    refuse_training(out)
    request, budget = _ConditionRequest.of(comparison), comparison.budget
    _check_budget(out, budget)
    conditions = (comparison.conditions or Conditions.of(comparison.base)).merge_existing(out)
    planned = _plan_all(conditions, out, comparison.base, request, execution, progress)
    if budget is not None:
        check_budgeted([each.grid for each in planned], [each.seen.task for each in planned])
    elif left := _left_from_before([each.grid for each in planned], comparison):
        progress.note(
            f"{out} also holds {left} from before, and the runs of these that are missing are trained too. To leave "
            "them out, pass another out=."
        )
    return StudyLayout(conditions, planned)


def _left_from_before(grids: Sequence[Grid], comparison: StudyRequest) -> str:
    """Name the methods and seeds with missing runs that the study holds and the comparison does not ask for."""
    missing = [
        (arm, seed)
        for grid in grids
        for seed in grid.seeds
        for arm in grid.arms
        if not grid.folder_of(arm, seed).finished
    ]
    asked = cross(comparison.methods, comparison.adapters or [None])
    methods = dict.fromkeys(arm.name for arm, _ in missing if comparison.sweep is None and arm not in asked)
    seeds = dict.fromkeys(str(seed) for _, seed in missing if seed not in comparison.seeds)
    return ", ".join([*methods, *(f"seed {seed}" for seed in seeds)])


@dataclass(frozen=True)
class _ConditionRequest:
    """The part of a request that every condition of a study shares."""

    methods: list[Arm]
    seeds: list[int]
    adapters: Sequence[AdapterSetting | None]
    sweep: FreezeSweep | None
    search: SearchRecord | None = None
    variants: tuple[dict[str, Any], ...] = ()
    rate_is_open: bool = False
    is_budgeted: bool = False

    @classmethod
    def of(cls, comparison: StudyRequest) -> _ConditionRequest:
        """Return what a comparison asks for. Raise UsageError if it is wrong whatever the model is."""
        swept = read_sweep(comparison.sweep) if comparison.sweep is not None else None
        methods = [swept.reference, *comparison.methods] if swept else list(comparison.methods)
        check_counts(methods, comparison.seeds)
        arms = cross(methods, comparison.adapters or [None])
        check_adapters(arms)
        check_distinct(arms, settings_of(comparison.base))
        request = cls(
            methods,
            list(comparison.seeds),
            comparison.adapters,
            swept,
            rate_is_open="lr" not in comparison.base.model_fields_set,
            is_budgeted=comparison.budget is not None,
        )
        return request if comparison.search is None else request._trying(comparison.search)

    def _trying(self, space: Space) -> _ConditionRequest:
        """Return the request with these settings: those of a search, or arms of a budget."""
        if self.is_budgeted:
            return replace(self, variants=arms_of(space), rate_is_open=False)
        return replace(self, search=space.record(), rate_is_open=False)

    def merge_existing(self, paths: list[Path]) -> _ConditionRequest:
        """Return the request with what the study already compares, which a new condition has to compare as well."""
        existing = [Grid.read(path) for path in paths if (path / STUDY_FILE).is_file()]
        if not existing:
            return self
        return replace(
            self,
            methods=[*chain(*(grid.methods for grid in existing)), *self.methods],
            seeds=[*chain(*(grid.seeds for grid in existing)), *self.seeds],
            adapters=[*chain(*(grid.adapters for grid in existing)), *self.adapters],
            search=self.search or existing[0].search,
            variants=self.variants or existing[0].variants,
            rate_is_open=False,
        )


def _check_budget(out: Path, budget: Budget | None) -> None:
    """Refuse a budgeted study without its budget: a plain comparison would train every run."""
    existing = read_budget(out)
    if budget is None and existing is not None:
        found = existing.verdict
        raise UsageError(
            f"{out} has a budget of {found.steps_allowed:,} of its grid's {found.steps_of_grid:,} optimizer steps, and "
            f"this command has none. Pass the same budget= to continue within it, a larger one to train more, or "
            f"budget=1 to train every run."
        )


def _plan_all(
    conditions: Conditions,
    out: Path,
    base: RunConfig,
    request: _ConditionRequest,
    execution: Execution,
    progress: StudyProgress,
) -> list[PlannedCondition]:
    """Check every condition against its data and its model."""
    configured = _with_threads(conditions.configured(out, base), execution)
    request = request.merge_existing([condition.path for condition in configured])
    planned = [_plan(condition, request, progress) for condition in configured]
    _check_together(planned)
    return planned


def _plan(condition: Condition, request: _ConditionRequest, progress: StudyProgress) -> PlannedCondition:
    """Return the grid of one condition, checked against its data and its model."""
    from gradgate.training.preview import preview  # imports torch: wrong usage was refused before

    grid = Grid.of(condition.path, condition.base, request.methods, request.seeds, request.adapters, condition.name)
    grid.check_language_adapters()
    check_batch(grid.base, grid.arms, {name for setting in grid.tried for name in setting})
    seen = preview(condition.base, grid.own_adapters)
    grid.check_data(seen.task)
    grid.check_same_languages(seen.language_adapters)
    for text in seen.notes:
        progress.note(grid.labelled(text))
    if request.sweep:
        grid = grid.with_methods(request.sweep.arms(seen.layers, grid.methods))
    seen.check_adapted(grid.arms)
    for method in dict.fromkeys(arm.method for arm in grid.arms):
        method.check_task(seen.task.kind)
        method.check(seen.layers.at(method.traits.unit))
    for selector in (condition.base.lr_scale or {}) if not grid.own_adapters else ():
        select(seen.layers, selector)  # of a model with an adapter the run itself says
    grid = _with_settings(grid, request, seen, progress)
    searches.check(grid)
    searches.all_runs([replace(grid, seeds=grid.seeds[:1])])  # raises for settings that do not go together
    unfair = shared_rate(grid.arms, grid.base.lr, grid.tried)
    if unfair:
        progress.note(grid.labelled(unfair))
    return PlannedCondition(grid, seen)


def _with_settings(grid: Grid, request: _ConditionRequest, seen: Preview, progress: StudyProgress) -> Grid:
    """Return the grid with the settings that are searched or compared. Note what happens if no rate was given."""
    if request.search is not None:
        return grid.with_search(request.search)
    if request.variants:
        return grid.with_variants(request.variants)
    if not request.rate_is_open:
        return grid
    if not request.is_budgeted and searches.wants_rates(seen.task, grid):
        progress.note(
            grid.labelled(
                f"lr= is not set, so the learning rate of each method is chosen on dev from {GENERATION_RATES}. "
                "search='lr=...' tries other rates; lr= uses one rate for every method."
            )
        )
        return grid.with_search(read_space([GENERATION_RATES]).record())
    if request.is_budgeted and any(arm.lr is None for arm in grid.arms):
        progress.note(
            grid.labelled(
                f"lr= is not set, so arms without their own rate train with {grid.base.peak_lr:g}, which suits "
                "some methods better than others. search='lr=...' makes each rate an arm of each method."
            )
        )
    return grid


def _check_together(planned: list[PlannedCondition]) -> None:
    """Raise UsageError if the conditions of a study cannot share one queue or one table."""
    metrics = {each.higher_is_better: each.seen.task for each in planned}
    if len(metrics) > 1:
        better = " and ".join(
            f"{task.metric} of {task.name} where it is {'higher' if higher else 'lower'}"
            for higher, task in metrics.items()
        )
        raise UsageError(f"These tasks cannot be in one study: {better} is better. Compare on them in two studies.")
    first = planned[0].grid
    for other in planned[1:]:
        if set(other.grid.methods) != set(first.methods):
            raise UsageError(
                f"sweep= gives different methods for {other.grid.base.model} and {first.base.model}, which differ "
                "in their number of layers. Sweep each model in its own study, or name the methods."
            )


def _with_threads(conditions: list[Condition], execution: Execution) -> list[Condition]:
    """Set the number of threads of all runs, on which sums on the CPU depend, whatever the number of workers is."""
    if conditions[0].base.threads is not None:
        return conditions
    existing = next(filter(None, (existing_settings(condition.path) for condition in conditions)), None)
    threads = execution.cores if existing is None else existing.get("threads")
    return [replace(condition, base=condition.base.model_copy(update={"threads": threads})) for condition in conditions]
