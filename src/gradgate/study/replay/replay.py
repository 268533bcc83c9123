"""Measure how often a budget finds the best arm of a grid that was trained in full, by resampling its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from gradgate.errors import DataError, UsageError
from gradgate.runs.state import Progress, RunState
from gradgate.statistics import compare_paired, holm
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.budget.evidence import LEVEL
from gradgate.study.replay.curves import Curves

BUDGET = "budget"
Runs = Mapping[RunKey, Progress]
"""Every run of a grid to its end, in the order of seeds of one repeat."""


@dataclass(frozen=True)
class Truth:
    """The answer of the full grid.

    Attributes:
        best: the arm with the best mean of whole runs on dev.
        second: the arm after it; None if there is one arm only.
        method: of the best arm.
        p: the largest of the two-sided paired t-tests of the best arm against each other, after Holm's correction;
            None if a test was not possible.
        method_p: the same against the best arm of each other method.
        tied: the best arm, and all that are not significantly worse by these tests.
        means: arm to its mean on dev; without arms that failed.
    """

    best: str
    second: str | None
    method: str
    p: float | None
    method_p: float | None
    tied: tuple[str, ...]
    means: Mapping[str, float]

    @property
    def decisive(self) -> bool:
        """Whether the best arm is significantly better than every other: p < 0.05 for each after Holm's correction."""
        return self.p is not None and self.p < LEVEL

    @property
    def method_decisive(self) -> bool:
        """Whether the best method, at its best rate, is significantly better than every other."""
        return self.method_p is not None and self.method_p < LEVEL


@dataclass(frozen=True)
class Score:
    """The result of one way to spend a budget, as shares of all repeats.

    Attributes:
        agreement: it put an arm first that is not significantly worse than the best by the grid's own test: of a
            decisive grid the best arm alone, of another any arm of the tie.
        same_best: it put the arm first that has the best mean in the grid, however small its lead.
        same_method: it put an arm of that arm's method first.
        regret: how far the arm that it put first is behind the grid's best, on dev, on average.
        named: it called one arm the winner; None if it tests nothing.
        false_winners: it called one arm the winner although the grid is not decisive, or another one than its best;
            None if it tests nothing.
        steps: mean share of the grid's steps that it took.
    """

    name: str
    agreement: float
    same_best: float
    same_method: float
    regret: float
    named: float | None
    false_winners: float | None
    steps: float


@dataclass(frozen=True)
class Replay:
    """The replay of one grid with one budget."""

    share: float
    repeats: int
    truth: Truth
    scores: tuple[Score, ...]

    def record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        truth = {**asdict(self.truth), "decisive": self.truth.decisive, "method_decisive": self.truth.method_decisive}
        return {**asdict(self), "truth": truth}


@dataclass(frozen=True)
class Outcome:
    """What one repeat found.

    Attributes:
        arm: that it put first; None if it could not say.
        named: whether it called this arm the winner; None if it tests nothing.
        steps: optimizer steps that it took.
    """

    arm: str | None
    named: bool | None
    steps: int


def replay(
    curves: Curves, share: float, repeats: int = 1000, seed: int = 0, advance: Callable[[], None] = lambda: None
) -> Replay:
    """Spend a budget on recorded runs many times, each with another order of seeds.

    A repeat draws an order of the grid's seeds without replacement, the same for all arms and tasks, so that pairs
    stay pairs. The budget takes seeds in this order, and sees each run up to its current step. It thus sees a random
    part of the grid's runs, as a budgeted study does, and is compared with the whole grid.

    Args:
        curves: the grid.
        share: of the grid's steps, above 0 and at most 1.
        repeats: 1 or more.
        seed: of the orders.
        advance: called after each repeat.

    Raises:
        UsageError: for a share or number out of range, or if the share does not pay for a start.
        DataError: if every arm has a run that failed.
    """
    truth, allocator = truth_of(curves), allocator_of(curves, share, repeats)

    @cache
    def budgeted(order: tuple[int, ...]) -> Outcome:
        observed = play(allocator, reordered(curves, order))
        finding = allocator.finding(observed)
        return Outcome(finding.winners[0] if finding.winners else None, finding.decided, allocator.spent(observed))

    outcomes = []
    for order in seed_orders(curves, repeats, seed):
        outcomes.append(budgeted(order))
        advance()
    return Replay(share, repeats, truth, (score_of(BUDGET, outcomes, curves.grid, truth),))


def allocator_of(curves: Curves, share: float, repeats: int) -> Allocator:
    """Return what spends a share of a grid's steps; raise UsageError for a share or number of repeats out of range."""
    if not 0 < share <= 1 or repeats < 1:
        raise UsageError(f"A share of {share:g} with {repeats} repeats: expected a share in (0, 1] and 1 or more.")
    return Allocator(curves.grid, int(share * curves.grid.total_steps * (1 + 1e-12)))


def seed_orders(curves: Curves, repeats: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield an order of the grid's seeds per repeat."""
    draw = np.random.default_rng(seed)
    for _ in range(repeats):
        yield tuple(draw.permutation(len(curves.grid.seeds)).tolist())


def play(allocator: Allocator, runs: Runs) -> dict[RunKey, Progress]:
    """Return what a budget has observed at its end, if the runs go as the recorded ones did."""
    observed: dict[RunKey, Progress] = {}
    while batch := allocator.next(observed):
        observed |= {key: at_step(runs[key], until) for key, until in batch.items()}
    return observed


def at_step(run: Progress, step: int) -> Progress:
    """Return the progress of a finished run at an earlier step."""
    if run.state is RunState.FAILED:
        return Progress(min(run.step, step), state=RunState.FAILED)
    seconds = None if run.seconds is None else run.seconds * step / run.step
    dev, losses = ({at: value for at, value in values.items() if at <= step} for values in (run.dev, run.losses))
    return replace(run, step=step, dev=dev, seconds=seconds, losses=losses)


def truth_of(curves: Curves) -> Truth:
    """Return the answer of all whole runs of a grid, without arms that have a failed run.

    Raises:
        DataError: if none is left.
    """
    grid = curves.grid
    scores: dict[str, dict[str, float]] = {}
    for arm in grid.arms:
        found = {
            f"{task} {seed}": curves.runs[RunKey(arm, task, seed)].best(steps, grid.higher_is_better)
            for seed, (task, steps) in product(grid.seeds, grid.steps.items())
            if not curves.runs[RunKey(arm, task, seed)].has_failed
        }
        if len(found) == len(grid.seeds) * len(grid.steps):
            scores[arm] = {pair: score for pair, score in found.items() if score is not None}
    if not scores:
        raise DataError("Every arm has a run that failed: there is no best one to find. Repair the study first.")
    sign = 1 if grid.higher_is_better else -1
    ranked = sorted(scores, key=lambda arm: -sign * fmean(scores[arm].values()))
    best, method = ranked[0], grid.method_of(ranked[0])
    first = {grid.method_of(arm): arm for arm in reversed(ranked)}
    others = [arm for name, arm in first.items() if name != method]
    tests = _tests(scores, best, ranked[1:])
    return Truth(
        best,
        ranked[1] if len(ranked) > 1 else None,
        method,
        p=_largest(tests),
        method_p=_largest(_tests(scores, best, others)),
        tied=(best, *(arm for arm, p in tests.items() if p is None or p >= LEVEL)),
        means={arm: fmean(scores[arm].values()) for arm in ranked},
    )


def _tests(scores: dict[str, dict[str, float]], best: str, others: Sequence[str]) -> dict[str, float | None]:
    """Return other arms to the corrected p of the best one against them; None if there is no test."""
    tests = holm([compare_paired(scores[best], scores[arm], unit="pair").p for arm in others])
    return dict(zip(others, tests, strict=True))


def _largest(tests: Mapping[str, float | None]) -> float | None:
    """Return the largest p; None if one of them is None, 0 if there was nothing to test."""
    found = [p for p in tests.values() if p is not None]
    return max(found, default=0.0) if len(found) == len(tests) else None


def reordered(curves: Curves, order: Sequence[int]) -> dict[RunKey, Progress]:
    """Return the runs with the seeds of the grid in another order, the same for all arms and tasks."""
    grid = curves.grid
    drawn = {slot: grid.seeds[place] for slot, place in zip(grid.seeds, order, strict=True)}
    return {
        RunKey(arm, task, slot): curves.runs[RunKey(arm, task, drawn[slot])]
        for arm, task, slot in product(grid.arms, grid.steps, grid.seeds)
    }


def score_of(name: str, outcomes: Sequence[Outcome], grid: FullGrid, truth: Truth) -> Score:
    """Return the shares of repeats that agree with a full grid."""
    has_tests = outcomes[0].named is not None
    named = [each for each in outcomes if each.named]
    false = [each for each in named if each.arm != truth.best or not truth.decisive]
    count = len(outcomes)
    methods = [None if each.arm is None else grid.method_of(each.arm) for each in outcomes]
    worst = min(truth.means.values()) if grid.higher_is_better else max(truth.means.values())
    behind = [abs(truth.means[truth.best] - truth.means.get(each.arm or "", worst)) for each in outcomes]
    return Score(
        name,
        agreement=sum(each.arm in truth.tied for each in outcomes) / count,
        same_best=sum(each.arm == truth.best for each in outcomes) / count,
        same_method=methods.count(truth.method) / count,
        regret=fmean(behind),
        named=len(named) / count if has_tests else None,
        false_winners=len(false) / count if has_tests else None,
        steps=fmean(each.steps for each in outcomes) / grid.total_steps,
    )
