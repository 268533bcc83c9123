"""Replay the stages of a budget on the progress of its runs, to find where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, pstdev

from gradgate.runs.state import Progress, RunState
from gradgate.study.budget.evidence import Table
from gradgate.study.budget.full_grid import EIGHTHS, FullGrid, RunKey, Targets
from gradgate.study.budget.judging import Compared
from gradgate.study.budget.stages import Stage
from gradgate.study.budget.verdict import Departure

Observed = Mapping[RunKey, Progress]
"""The progress of each run that has begun."""

_SMALL = 0.01
UNKNOWN = Progress(state=RunState.MISSING)


@dataclass(frozen=True)
class Standing:
    """The state of a budget.

    Attributes:
        compared: the scores of each stage so far; the last are those of the remaining arms. The stage under way is
            included once its arms have a common pair.
        missing: the runs that the stage under way lacks, seed by seed.
        departures: the arms that left so far.
        is_last: whether the last stage of the plan has a common pair.
    """

    compared: tuple[Compared, ...]
    missing: tuple[Targets, ...]
    departures: tuple[Departure, ...]
    is_last: bool

    @property
    def arms(self) -> tuple[str, ...]:
        """The remaining arms, the best first."""
        return tuple(self.compared[-1].table)


def standing(grid: FullGrid, stages: Sequence[Stage], observed: Observed) -> Standing:
    """Replay the stages: each without the arms that left before it, all without those that failed."""
    failed = {key.arm for key, progress in observed.items() if progress.has_failed}
    arms = [arm for arm in grid.arms if arm not in failed]
    departures = [_failure(grid, arm, observed) for arm in grid.arms if arm in failed]
    compared: list[Compared] = []
    for place, stage in enumerate(stages):
        missing = tuple(_missing(grid, arms, stage, observed))
        table = _ranked(grid, arms, stage, observed)
        if any(table.values()) or place == 0:
            compared.append(Compared(stage, table))
        if missing or len(arms) < 2 or stage is stages[-1]:
            break
        remaining = stages[place + 1].arms
        departures += _left(table, stage, remaining, grid.factor)
        arms = list(table)[:remaining]
    if len(compared[-1].table) > len(arms):  # the next stage has no common pair yet
        compared.append(Compared(compared[-1].stage, {arm: compared[-1].table[arm] for arm in arms}))
    return Standing(tuple(compared), missing, tuple(departures), compared[-1].stage is stages[-1])


def _missing(grid: FullGrid, arms: Sequence[str], stage: Stage, observed: Observed) -> Iterator[Targets]:
    """Yield the runs that a stage lacks, seed by seed."""
    for seed in grid.seeds[: stage.seeds]:
        wanted = {RunKey(arm, task, seed): grid.until(task, stage.eighths) for arm, task in product(arms, grid.steps)}
        batch = {key: until for key, until in wanted.items() if observed.get(key, UNKNOWN).step < until}
        if batch:
            yield batch


def _ranked(grid: FullGrid, arms: Sequence[str], stage: Stage, observed: Observed) -> dict[str, tuple[float, ...]]:
    """Return arm to scores on common pairs, with higher ones better; the best arm first."""
    sign, higher = (1.0 if grid.higher_is_better else -1.0), grid.higher_is_better
    scores: dict[str, list[float]] = {arm: [] for arm in arms}
    losses: dict[str, list[float | None]] = {arm: [] for arm in arms}
    for seed, task in product(grid.seeds[: stage.seeds], grid.steps):
        until = grid.until(task, stage.eighths)
        found = [observed.get(RunKey(arm, task, seed), UNKNOWN).best(until, higher) for arm in arms]
        common = [score for score in found if score is not None]
        if len(common) == len(arms):
            for arm, score in zip(arms, common, strict=True):
                scores[arm].append(sign * score)
                losses[arm].append(observed[RunKey(arm, task, seed)].lowest_loss(until))
    order = _order(scores, losses, is_whole=stage.eighths == EIGHTHS[-1])
    return {arm: tuple(scores[arm]) for arm in order}


def _order(
    scores: Mapping[str, Sequence[float]], losses: Mapping[str, Sequence[float | None]], *, is_whole: bool
) -> list[str]:
    """Return the arms, the best first.

    Whole runs are ordered by their mean score, ties by their mean loss. In short runs both have equal weight,
    each in its standard deviations over arms: early in a run, the loss predicts its end better than the score. Over the
    two grids of the embedded samples (18 arms, 5 seeds, 96 steps), the rank correlation of one seed at 1/8, 1/4 and
    1/2 of the schedule with the scores of whole runs is 0.60, 0.69, 0.70 and 0.18, 0.65, 0.79 for scores, 0.70, 0.79,
    0.83 and 0.38, 0.78, 0.87 for the lowest loss. Loss alone picked the best arm less often than both together.
    Differences below a hundredth of the mean count in proportion to it: of two arms, each difference would otherwise be
    as large as any other.
    """
    if not any(scores.values()):
        return list(scores)
    known = {arm: [loss for loss in found if loss is not None] for arm, found in losses.items()}
    has_losses = all(len(found) == len(losses[arm]) for arm, found in known.items())
    mean = {arm: fmean(found) for arm, found in scores.items()}
    lost = {arm: fmean(found) if has_losses else 0.0 for arm, found in known.items()}
    if is_whole:
        return sorted(scores, key=lambda arm: (-mean[arm], lost[arm]))
    of_scores, of_losses = _standardised(mean), _standardised(lost)
    return sorted(scores, key=lambda arm: of_losses[arm] - of_scores[arm])


def _standardised(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values minus their mean, in their standard deviations, or in :data:`_SMALL` of the mean if larger."""
    middle = fmean(values.values())
    spread = max(pstdev(values.values()), _SMALL * abs(middle))
    return {name: (value - middle) / spread if spread else 0.0 for name, value in values.items()}


def _left(table: Table, stage: Stage, remaining: int, factor: int) -> list[Departure]:
    """Return the arms that leave after a stage, in the order of their places."""
    means = {arm: fmean(scores) for arm, scores in table.items()}
    best, pairs = max(means.values()), len(next(iter(table.values())))
    return [
        Departure(arm, stage.eighths / 8, pairs, place, len(table), best - means[arm], factor)
        for place, arm in enumerate(table, 1)
        if place > remaining
    ]


def _failure(grid: FullGrid, arm: str, observed: Observed) -> Departure:
    failed = [(key, progress) for key, progress in observed.items() if key.arm == arm and progress.has_failed]
    share = max(progress.step / grid.steps[key.task] for key, progress in failed)
    return Departure(arm, share, 0, None, len(grid.arms), None)
