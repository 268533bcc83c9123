"""Measure how often a budget finds the best arm of a grid that was trained in full, by resampling its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import permutations, product
from math import factorial
from statistics import fmean
from typing import Any

import numpy as np

from gradgate.errors import DataError, UsageError
from gradgate.runs.state import Progress, RunState
from gradgate.statistics import compare_paired, holm
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.budget.evidence import LEVEL, pooled_noise
from gradgate.study.replay.curves import Curves

BUDGET = "budget"
MANY = 20
"""Seeds that have more orders than anybody replays."""
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
        noise: the standard deviation of one whole run on dev that neither its arm nor its pair explains, over all arms;
            None with one arm or one pair.
    """

    best: str
    second: str | None
    method: str
    p: float | None
    method_p: float | None
    tied: tuple[str, ...]
    means: Mapping[str, float]
    noise: float | None = None

    @property
    def by_chance(self) -> float:
        """The agreement of an arm that is drawn at random."""
        return len(self.tied) / len(self.means)

    def behind(self, arm: str | None) -> float:
        """Return how far an arm is behind the best; the worst arm for one that failed or None."""
        gaps = {name: abs(self.means[self.best] - mean) for name, mean in self.means.items()}
        return gaps.get(arm or "", max(gaps.values()))

    @property
    def decisive(self) -> bool:
        """Whether the best arm is significantly better than every other: p < 0.05 for each after Holm's correction."""
        return self.p is not None and self.p < LEVEL

    @property
    def method_decisive(self) -> bool:
        """Whether the best method, at its best rate, is significantly better than every other."""
        return self.method_p is not None and self.method_p < LEVEL


@dataclass(frozen=True)
class StrategyScore:
    """The result of one way to spend a budget, as shares of all repeats.

    Attributes:
        agreement: it put an arm first that is not significantly worse than the best by the grid's own test: of a
            decisive grid the best arm alone, of another any arm of the tie.
        same_best: it put the arm first that has the best mean in the grid, however small its lead.
        same_method: it put an arm of that arm's method first.
        within_one_sd: it put an arm first whose mean is behind the best by at most the noise of one whole run; None if
            that is unknown.
        regret: how far the arm that it put first is behind the grid's best, on dev, on average.
        named: it called one arm the winner; None if it tests nothing.
        false_winners: it called one arm the winner although the grid is not decisive, or another one than its best;
            None if it tests nothing, as then it cannot be wrong.
        steps: mean share of the grid's steps that it took.
    """

    name: str
    agreement: float
    same_best: float
    same_method: float
    within_one_sd: float | None
    regret: float
    named: float | None
    false_winners: float | None
    steps: float


@dataclass(frozen=True)
class Replay:
    """The replay of one grid with one budget.

    Attributes:
        repeats: orders of seeds: as many as were asked for, or all of them if these are fewer.
        can_name_a_winner: whether the budget's plan ends with a test.
    """

    share: float
    repeats: int
    truth: Truth
    scores: tuple[StrategyScore, ...]
    can_name_a_winner: bool = True

    def record(self) -> dict[str, Any]:
        """Return plain values for JSON: what the budget did, and what the full grid says."""
        (score,) = (score for score in self.scores if score.name == BUDGET)
        truth = {**asdict(self.truth), "decisive": self.truth.decisive, "method_decisive": self.truth.method_decisive}
        return {
            "budget": self.share,
            "spent": score.steps,
            "decisive": self.truth.decisive,
            "agreement": score.agreement,
            "agreement_by_chance": self.truth.by_chance,
            "same_best": score.same_best,
            "same_method": score.same_method,
            "false_winners": score.false_winners,
            "within_one_sd": score.within_one_sd,
            "regret": score.regret,
            "can_name_a_winner": self.can_name_a_winner,
            "named": score.named,
            "repeats": self.repeats,
            "truth": truth,
        }


@dataclass(frozen=True)
class Outcome:
    """The outcome of one repeat.

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

    A repeat takes an order of the grid's seeds without replacement, the same for all arms and tasks, so that pairs
    stay pairs. If there are no more orders than repeats, each is taken once; otherwise they are drawn. The budget takes
    seeds in this order, and sees each run up to its current step. It thus sees a random part of the grid's runs, as a
    budgeted study does, and is compared with the whole grid.

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
        named = finding.decided if allocator.can_name_a_winner else None
        return Outcome(finding.winners[0] if finding.winners else None, named, allocator.spent(observed))

    outcomes = []
    for order in seed_orders(curves, repeats, seed):
        outcomes.append(budgeted(order))
        advance()
    score = score_of(BUDGET, outcomes, curves.grid, truth)
    return Replay(share, len(outcomes), truth, (score,), allocator.can_name_a_winner)


def allocator_of(curves: Curves, share: float, repeats: int) -> Allocator:
    """Return what spends a share of a grid's steps; raise UsageError for a share or number of repeats out of range."""
    if not 0 < share <= 1:
        raise UsageError(f"budget={share:g}: expected a share above 0 and at most 1, such as 0.1.")
    if repeats < 1:
        raise UsageError(f"repeats={repeats}: expected 1 or more.")
    return Allocator(curves.grid, int(share * curves.grid.total_steps * (1 + 1e-12)))


def seed_orders(curves: Curves, repeats: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield an order of the grid's seeds per repeat: each once if there are no more orders than repeats."""
    seeds = len(curves.grid.seeds)
    if seeds < MANY and factorial(seeds) <= repeats:
        yield from permutations(range(seeds))
        return
    draw = np.random.default_rng(seed)
    for _ in range(repeats):
        yield tuple(draw.permutation(seeds).tolist())


def count_orders(seeds: int, repeats: int) -> int:
    """Return how many orders a replay takes."""
    return min(repeats, factorial(seeds)) if seeds < MANY else repeats


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
        raise DataError("Every arm has a failed run, so there is no best one to find. Repair the study first.")
    sign = 1 if grid.higher_is_better else -1
    ranked = sorted(scores, key=lambda arm: -sign * fmean(scores[arm].values()))
    best, method = ranked[0], grid.method_of(ranked[0])
    first = {grid.method_of(arm): arm for arm in reversed(ranked)}
    others = [arm for name, arm in first.items() if name != method]
    tests = _tests(scores, best, ranked[1:])
    noise = pooled_noise({arm: list(own.values()) for arm, own in scores.items()})
    return Truth(
        best,
        ranked[1] if len(ranked) > 1 else None,
        method,
        p=_largest(tests),
        method_p=_largest(_tests(scores, best, others)),
        tied=(best, *(arm for arm, p in tests.items() if p is None or p >= LEVEL)),
        means={arm: fmean(scores[arm].values()) for arm in ranked},
        noise=None if noise is None else noise.sd,
    )


def _tests(scores: dict[str, dict[str, float]], best: str, others: Sequence[str]) -> dict[str, float | None]:
    """Return other arms to the corrected p of the best one against them; None if there is no test."""
    tests = holm([compare_paired(scores[best], scores[arm], unit="pair").p for arm in others])
    return dict(zip(others, tests, strict=True))


def _largest(tests: Mapping[str, float | None]) -> float | None:
    """Return the largest p; None if one of them is None, or there was nothing to test."""
    found = [p for p in tests.values() if p is not None]
    return max(found, default=None) if len(found) == len(tests) else None


def reordered(curves: Curves, order: Sequence[int]) -> dict[RunKey, Progress]:
    """Return the runs with the seeds of the grid in another order, the same for all arms and tasks."""
    grid = curves.grid
    drawn = {slot: grid.seeds[place] for slot, place in zip(grid.seeds, order, strict=True)}
    return {
        RunKey(arm, task, slot): curves.runs[RunKey(arm, task, drawn[slot])]
        for arm, task, slot in product(grid.arms, grid.steps, grid.seeds)
    }


def score_of(name: str, outcomes: Sequence[Outcome], grid: FullGrid, truth: Truth) -> StrategyScore:
    """Return the shares of repeats that agree with a full grid."""
    has_tests = outcomes[0].named is not None
    named = [each for each in outcomes if each.named]
    false = [each for each in named if each.arm != truth.best or not truth.decisive]
    count = len(outcomes)
    methods = [None if each.arm is None else grid.method_of(each.arm) for each in outcomes]
    behind = [truth.behind(each.arm) for each in outcomes]
    return StrategyScore(
        name,
        agreement=sum(each.arm in truth.tied for each in outcomes) / count,
        same_best=sum(each.arm == truth.best for each in outcomes) / count,
        same_method=methods.count(truth.method) / count,
        within_one_sd=None if truth.noise is None else sum(gap <= truth.noise for gap in behind) / count,
        regret=fmean(behind),
        named=len(named) / count if has_tests else None,
        false_winners=len(false) / count if has_tests else None,
        steps=fmean(each.steps for each in outcomes) / grid.total_steps,
    )
