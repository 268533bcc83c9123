"""Prepare a race: choose the arms that fit, time them, and plan the minutes; or read what an earlier call planned."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradgate.errors import UsageError
from gradgate.files import refuse_used
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.run import RunConfig
from gradgate.study.budget import FullGrid
from gradgate.study.progress import StudyProgress
from gradgate.study.recommend.evidence import leaving_order
from gradgate.study.recommend.portfolio import LeftOut, Portfolio, Subject, portfolio
from gradgate.study.recommend.record import RecommendRecord, read_recommend, write_recommend
from gradgate.study.recommend.time_plan import minutes as in_minutes
from gradgate.study.recommend.time_plan import plan_time
from gradgate.tasks.metrics.page_unit import page_factor

if TYPE_CHECKING:
    from gradgate.study.recommend.costs import Costs
    from gradgate.training.preview import Preview

_LENGTHS = ((1.0, 4), (2 / 3, 4), (1 / 3, 4), (1 / 3, 2), (1 / 6, 2))
"""What is tried in turn: the length of a run as a share of the default, and the fewest arms that are worth it.

Few arms that have learned something say more than many that have not begun to.
"""
_SHORTEST = 8  # steps, of which each eighth is one
_TIMING = 1 / 8  # of the minutes at most, to time first steps
_TOO_LONG = "there is no time for it, and the recorded studies favour the other arms."


@dataclass(frozen=True)
class Race:
    """A planned race.

    Attributes:
        record: of the recommendation.
        grid: of its arms.
        config: the settings that all arms share.
    """

    record: RecommendRecord
    grid: FullGrid
    config: RunConfig

    @property
    def base(self) -> RunConfig:
        """The settings that all arms share, with the learning rate and the length that were planned."""
        length = {} if self.record.steps is None else {"steps": self.record.steps}
        return self.config.model_copy(update={"lr": self.record.lr, **length})


def prepare_race(
    config: RunConfig, minutes: float, seeds: Sequence[int], out: Path, progress: StudyProgress, began: float
) -> Race:
    """Plan the minutes, or read the plan of an earlier call; say what they can give.

    Args:
        config: the settings that all arms share.
        minutes: that are asked for. With more than before, the race resumes with a larger plan.
        seeds: of the arms.
        out: the study folder.
        progress: receives what is left out, and what the minutes can give.
        began: when the command started.

    Raises:
        UsageError: if fewer than two arms can be trained here, or in these minutes; or if ``out`` is a file.
        RunError: if the folder holds something else.
    """
    existing = read_recommend(out)
    if existing is None:
        refuse_used(out, "holds no recommendation")

    from gradgate.training.preview import preview  # imports torch

    seen = preview(config)
    if existing is None:
        race = _planned(config, seen, minutes, seeds, progress, began)
    else:
        race = _resumed(config, existing, seen, minutes, seeds, progress)
    for each in race.record.left_out:
        progress.note(str(each))
    record = race.record
    progress.note(f"Comparing {', '.join(record.arms)}; with lr {record.lr:g} unless an arm has its own.")
    if record.steps is not None:
        progress.note(
            f"Runs have {record.steps:,} steps, fewer than by default, so that {len(record.arms)} arms can be "
            "compared in this time. steps= or epochs= sets the length."
        )
    progress.note(record.plan.said)
    out.mkdir(parents=True, exist_ok=True)
    write_recommend(out, record)
    return race


def _planned(
    config: RunConfig, seen: Preview, minutes: float, seeds: Sequence[int], progress: StudyProgress, began: float
) -> Race:
    """Time the arms, and return the longest runs of which the minutes pay for a race."""
    from gradgate.study.recommend.fitting import subject_of

    subject = subject_of(config, seen)
    chosen, measured = _timed(config, seen, subject, 60 * minutes * _TIMING, progress)
    lengths = _lengths(config, measured.steps)
    for steps, fewest in lengths:
        names = _renamed([arm.name for arm in chosen.arms], subject, steps, chosen.lr)
        grid, costs = _grid(tuple(names), seen, steps, seeds), measured.of(names, steps)
        left, order = 60 * minutes - (time.monotonic() - began), leaving_order(tuple(names), seen.task.kind)
        try:
            plan = plan_time(grid, costs, order, left, fewest)
        except UsageError:
            if (steps, fewest) == lengths[-1]:
                raise
            continue
        record = RecommendRecord(
            minutes=minutes,
            lr=chosen.lr,
            steps=None if steps == measured.steps else steps,
            arms=plan.arms,
            left_out=(*chosen.left_out, *(LeftOut(arm, _TOO_LONG) for arm in plan.dropped)),
            costs=costs,
            plan=plan,
            seconds_spent=0.0,
        )
        return Race(record, replace(grid, arms=plan.arms), config)
    raise AssertionError("the last length returns or raises")


def _timed(
    config: RunConfig, seen: Preview, subject: Subject, seconds: float, progress: StudyProgress
) -> tuple[Portfolio, Costs]:
    """Return the arms that can be trained here, and what they cost."""
    from gradgate.study.recommend.costs import measure_costs
    from gradgate.study.recommend.fitting import fitting

    fit = fitting(portfolio(subject, _given_rate(config)), config, seen)
    _check_choice(fit)
    costs = measure_costs(fit.arms, config.model_copy(update={"lr": fit.lr}), seen.task, seconds, progress)
    chosen = replace(
        fit,
        arms=tuple(arm for arm in fit.arms if arm.name in costs.arms),
        left_out=(*fit.left_out, *costs.left_out),
    )
    _check_choice(chosen)
    return chosen, costs


def _lengths(config: RunConfig, steps: int) -> tuple[tuple[int, int], ...]:
    """Return the steps of a run and the fewest arms to try in turn; shorter runs only if the length is the default."""
    if config.steps is not None or config.epochs is not None:
        return ((steps, 2),)
    tried = ((max(_SHORTEST, round(share * steps)), fewest) for share, fewest in _LENGTHS if share * steps >= 1)
    return tuple(dict.fromkeys(tried))


def _renamed(measured: Sequence[str], subject: Subject, steps: int, lr: float) -> dict[str, str]:
    """Return the arms of a portfolio for runs of another length, each with the one that was measured in its place."""
    if steps == subject.steps:
        return {name: name for name in measured}
    pairs = zip(portfolio(subject, lr).arms, portfolio(replace(subject, steps=steps), lr).arms, strict=True)
    return {new.name: old.name for old, new in pairs if old.name in measured}


def _resumed(
    config: RunConfig,
    existing: RecommendRecord,
    seen: Preview,
    minutes: float,
    seeds: Sequence[int],
    progress: StudyProgress,
) -> Race:
    """Return the plan of an earlier call, or a larger one with the same arms for more minutes."""
    grid = _grid(existing.arms, seen, existing.costs.steps, seeds)
    if minutes <= existing.minutes:
        if minutes < existing.minutes:
            progress.note(f"{in_minutes(60 * existing.minutes)} were planned before, and still apply.")
        return Race(existing, grid, config)
    plan = plan_time(grid, existing.costs, (), 60 * minutes)
    if plan.steps_allowed < existing.plan.steps_allowed:
        plan = replace(plan, steps_allowed=existing.plan.steps_allowed)
    return Race(replace(existing, minutes=minutes, plan=plan, stopped=False), grid, config)


def _grid(arms: Sequence[str], seen: Preview, steps: int, seeds: Sequence[int]) -> FullGrid:
    return FullGrid(
        arms=tuple(arms),
        seeds=tuple(seeds),
        steps={seen.task.name: steps},
        methods={name: read_arm(name).without_settings().name for name in arms},
        higher_is_better=seen.task.metric_higher_is_better,
        factor=page_factor(seen.task.metric),
    )


def _check_choice(chosen: Portfolio) -> None:
    """Raise UsageError with fewer than two arms."""
    if len(chosen.arms) < 2:
        raise UsageError(
            f"There are too few methods to choose from: {', '.join(map(str, chosen.arms)) or 'nothing'} can be "
            f"trained here. {' '.join(map(str, chosen.left_out))} Expected two or more; pass a smaller "
            "batch_size=, max_length= or model, or install what is missing."
        )


def _given_rate(config: RunConfig) -> float | None:
    return config.lr if "lr" in config.model_fields_set else None
