"""How often a budget finds the best arm of a grid that was trained in full, by resampling its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from gradgate.errors import DataError, UsageError, nearest
from gradgate.statistics import compare_paired, holm
from gradgate.study.budget import Allocator, FullGrid, Progress, RunKey
from gradgate.study.budget.evidence import LEVEL
from gradgate.study.replay.curves import Curves
from gradgate.study.replay.rivals import RIVALS, play

BUDGET = "budget"


@dataclass(frozen=True)
class Truth:
    """What the full grid says.

    Attributes:
        best: the arm with the best mean of whole runs on dev.
        second: the arm after it; None for one arm alone.
        method: of the best arm.
        p: the largest of the two-sided paired t-tests of the best arm against each other, after Holm's correction;
            None where a test was not possible.
        method_p: the same against the best arm of each other method.
        tied: the best arm, and all that these tests cannot tell from it.
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
        """Whether the best arm is told from every other: p < 0.05 against each after Holm's correction."""
        return self.p is not None and self.p < LEVEL

    @property
    def method_decisive(self) -> bool:
        """Whether the best method, at its best rate, is told from every other."""
        return self.method_p is not None and self.method_p < LEVEL


@dataclass(frozen=True)
class Score:
    """How one way to spend the budget fared, as shares of all repeats.

    Attributes:
        agreement: it put an arm first that the grid's own test does not tell from its best: of a decisive grid the
            best arm alone, of another any arm of the tie.
        same_best: it put the arm first that has the best mean in the grid, however small its lead.
        same_method: it put an arm of that arm's method first.
        regret: how far the arm that it put first is behind the grid's best, on dev, on average.
        named: it called one arm the winner; None for rivals, which test nothing.
        false_winners: it called one arm the winner although the grid is not decisive, or another one than its best.
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
        """Plain values, for JSON."""
        truth = {**asdict(self.truth), "decisive": self.truth.decisive, "method_decisive": self.truth.method_decisive}
        return {**asdict(self), "truth": truth}


@dataclass(frozen=True)
class _Outcome:
    arm: str | None
    named: bool
    steps: int


def replay(
    curves: Curves,
    share: float,
    repeats: int = 1000,
    against: Sequence[str] = (),
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Replay:
    """Spend a budget on recorded runs many times, each with another order of seeds.

    A repeat draws an order of the grid's seeds without replacement, the same for all arms and tasks, so that pairs
    stay pairs; the budget takes seeds in this order, and sees of each run what it had shown by the step it is at. It
    thus sees a random part of the runs of the grid, as a budgeted study does, and is compared with the whole of it.

    Args:
        share: of the grid's steps, above 0 and at most 1.
        against: names of :data:`gradgate.study.replay.rivals.RIVALS`, which get the same steps and the same orders.
        seed: of the orders.
        advance: called after each repeat.

    Raises:
        UsageError: for a share, number or rival that is none, or where the share does not pay for a start.
        DataError: if every arm has a run that failed.
    """
    unknown = [name for name in against if name not in RIVALS]
    if unknown:
        raise UsageError(
            f"There is no rival {unknown[0]!r}.{nearest(unknown[0], RIVALS)} Expected some of {', '.join(RIVALS)}."
        )
    if not 0 < share <= 1 or repeats < 1:
        raise UsageError(f"A share of {share:g} with {repeats} repeats: expected a share in (0, 1] and 1 or more.")
    truth = truth_of(curves)
    allocator = Allocator(curves.grid, int(share * curves.grid.total_steps * (1 + 1e-12)))
    outcomes: dict[str, list[_Outcome]] = {name: [] for name in (BUDGET, *against)}
    draw = np.random.default_rng(seed)

    @cache
    def budgeted(order: tuple[int, ...]) -> _Outcome:
        observed = play(allocator, _reordered(curves, order))
        finding = allocator.finding(observed)
        return _Outcome(finding.winners[0] if finding.winners else None, finding.decided, allocator.spent(observed))

    for repeat in range(repeats):
        order = tuple(draw.permutation(len(curves.grid.seeds)).tolist())
        outcomes[BUDGET].append(budgeted(order))
        for name in against:
            pick = RIVALS[name](curves.grid, _reordered(curves, order), allocator.steps_allowed, repeat)
            outcomes[name].append(_Outcome(pick.arm, False, pick.steps))
        advance()
    return Replay(share, repeats, truth, tuple(_score(name, outcomes[name], curves.grid, truth) for name in outcomes))


def truth_of(curves: Curves) -> Truth:
    """What all whole runs of a grid say. Arms with a failed run are out.

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
        raise DataError("Every arm has a run that failed: there is no best one to find. Mend the study first.")
    sign = 1 if grid.higher_is_better else -1
    ranked = sorted(scores, key=lambda arm: -sign * fmean(scores[arm].values()))
    best, method = ranked[0], grid.method_of(ranked[0])
    first = {grid.method_of(arm): arm for arm in reversed(ranked)}
    rivals = [arm for name, arm in first.items() if name != method]
    tests = _tests(scores, best, ranked[1:])
    return Truth(
        best,
        ranked[1] if len(ranked) > 1 else None,
        method,
        p=_largest(tests),
        method_p=_largest(_tests(scores, best, rivals)),
        tied=(best, *(arm for arm, p in tests.items() if p is None or p >= LEVEL)),
        means={arm: fmean(scores[arm].values()) for arm in ranked},
    )


def _tests(scores: dict[str, dict[str, float]], best: str, others: Sequence[str]) -> dict[str, float | None]:
    """Other arms to the corrected p of the best one against them; None where there is no test."""
    tests = holm([compare_paired(scores[best], scores[arm], unit="pair").p for arm in others])
    return dict(zip(others, tests, strict=True))


def _largest(tests: Mapping[str, float | None]) -> float | None:
    """The largest p; None where one of them is, 0 where nothing was to be tested."""
    found = [p for p in tests.values() if p is not None]
    return max(found, default=0.0) if len(found) == len(tests) else None


def _reordered(curves: Curves, order: Sequence[int]) -> dict[RunKey, Progress]:
    """The runs with the seeds of the grid in another order, the same for all arms and tasks."""
    grid = curves.grid
    drawn = {slot: grid.seeds[place] for slot, place in zip(grid.seeds, order, strict=True)}
    return {
        RunKey(arm, task, slot): curves.runs[RunKey(arm, task, drawn[slot])]
        for arm, task, slot in product(grid.arms, grid.steps, grid.seeds)
    }


def _score(name: str, outcomes: Sequence[_Outcome], grid: FullGrid, truth: Truth) -> Score:
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
        named=len(named) / count if name == BUDGET else None,
        false_winners=len(false) / count if name == BUDGET else None,
        steps=fmean(each.steps for each in outcomes) / grid.total_steps,
    )
