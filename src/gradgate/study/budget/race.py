"""Where a race stands: its stages replayed on what is known of the runs, from the first stage on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from gradgate.study.budget.evidence import Table
from gradgate.study.budget.full_grid import FullGrid, Progress, Request, RunKey
from gradgate.study.budget.ladder import Stage
from gradgate.study.budget.verdict import Departure

Observed = Mapping[RunKey, Progress]
"""What is known of each run that was begun."""

UNKNOWN = Progress()


@dataclass(frozen=True)
class Standing:
    """Where the race stands.

    Attributes:
        stage: that is under way or was the last; the one before where it has no common pair yet.
        table: the arms that are left, the best first, with their scores on the common pairs of that stage.
        missing: what the stage under way still lacks, one batch for each seed.
        departures: what left so far.
        seen: eighths of the schedule to all scores that stages of this length compared.
        is_last: whether ``stage`` is the last of the plan.
    """

    stage: Stage
    table: Table
    missing: tuple[tuple[Request, ...], ...]
    departures: tuple[Departure, ...]
    seen: Mapping[int, Table]
    is_last: bool


def standing(grid: FullGrid, stages: Sequence[Stage], observed: Observed) -> Standing:
    """Replay the stages: at each, the arms that left before are out, and those that failed were never in."""
    failed = {key.arm for key, progress in observed.items() if progress.has_failed}
    arms = [arm for arm in grid.arms if arm not in failed]
    departures = [_failure(grid, arm, observed) for arm in grid.arms if arm in failed]
    seen: dict[int, dict[str, tuple[float, ...]]] = {}
    at, table = stages[0], dict[str, tuple[float, ...]]((arm, ()) for arm in arms)
    for place, stage in enumerate(stages):
        missing = tuple(_missing(grid, arms, stage, observed))
        compared = _ranked(grid, arms, stage, observed)
        if any(compared.values()):
            at, table = stage, compared
            seen.setdefault(stage.eighths, {}).update(compared)
        if missing or len(arms) < 2 or stage is stages[-1]:
            break
        kept = stages[place + 1].arms
        departures += _left(compared, stage, kept)
        arms = list(compared)[:kept]
        table = {arm: compared[arm] for arm in arms}
    return Standing(at, table, missing, tuple(departures), seen, at is stages[-1])


def _missing(grid: FullGrid, arms: Sequence[str], stage: Stage, observed: Observed) -> Iterator[tuple[Request, ...]]:
    """The requests of a stage that were not met, seed by seed."""
    for seed in grid.seeds[: stage.seeds]:
        wanted = [Request(arm, task, seed, grid.until(task, stage.eighths)) for arm, task in product(arms, grid.steps)]
        batch = tuple(each for each in wanted if observed.get(each.key, UNKNOWN).step < each.until_step)
        if batch:
            yield batch


def _ranked(grid: FullGrid, arms: Sequence[str], stage: Stage, observed: Observed) -> dict[str, tuple[float, ...]]:
    """The arms with their scores on common pairs, higher being better; the best first, ties in the grid's order."""
    sign, higher = (1.0 if grid.higher_is_better else -1.0), grid.higher_is_better
    scores: dict[str, list[float]] = {arm: [] for arm in arms}
    for seed, task in product(grid.seeds[: stage.seeds], grid.steps):
        until = grid.until(task, stage.eighths)
        found = [observed.get(RunKey(arm, task, seed), UNKNOWN).best(until, higher) for arm in arms]
        common = [score for score in found if score is not None]
        if len(common) == len(arms):
            for arm, score in zip(arms, common, strict=True):
                scores[arm].append(sign * score)
    means = {arm: fmean(values) if values else 0.0 for arm, values in scores.items()}
    return {arm: tuple(scores[arm]) for arm in sorted(arms, key=lambda arm: -means[arm])}


def _left(table: Table, stage: Stage, kept: int) -> list[Departure]:
    means = {arm: fmean(scores) for arm, scores in table.items()}
    best, pairs = max(means.values()), len(next(iter(table.values())))
    return [
        Departure(arm, stage.eighths / 8, pairs, place, len(table), best - means[arm])
        for place, arm in enumerate(table, 1)
        if place > kept
    ]


def _failure(grid: FullGrid, arm: str, observed: Observed) -> Departure:
    failed = [(key, progress) for key, progress in observed.items() if key.arm == arm and progress.has_failed]
    share = max(progress.step / grid.steps[key.task] for key, progress in failed)
    return Departure(arm, share, 0, None, len(grid.arms), None)
