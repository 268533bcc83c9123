"""Plan a budget: how many arms are trained how far, on how many seeds.

The plan follows from the size of the grid and the allowed steps, not from scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from gradgate.errors import UsageError
from gradgate.study.budget.full_grid import EIGHTHS, FullGrid

FEWEST_PAIRS = 3
"""The fewest pairs of whole runs that are tested."""
# What a run shows at each length, set by hand after one grid (the embedded sample, 18 arms, 5 seeds, 96 steps): its
# residual over arms and seeds against the spread of arms, and the correlation of arms' means with those of whole runs.
# On a second one (the embedded inference task, of the same size) runs of an eighth show less; 48 other values, up to
# twice the noise, gave the same plans there or others that were as good. Other tasks may differ.
_LEAD = 1.0
"""The lead for which the plan is best: that of the best arm over each other, in sd of a whole run's own noise."""
_NOISE = {1: 1.5, 2: 1.1, 4: 1.0, 8: 1.0}
"""Eighths of the schedule to the noise of a run relative to the lead that shows there."""
_SHIFT = {1: 0.8, 2: 0.3, 4: 0.2, 8: 0.0}
"""Eighths of the schedule to how far arms are from where they end, which no number of seeds takes away."""
_DIVISORS = (2, 3, 4, 6, 8, 16, 32)
_NODES = 31


@dataclass(frozen=True)
class Stage:
    """``arms`` arms are trained to ``eighths`` eighths of the schedule on the first ``seeds`` seeds."""

    arms: int
    eighths: int
    seeds: int


def plan_stages(grid: FullGrid, allowed: int) -> tuple[Stage, ...]:
    """Return the stages that a number of optimizer steps pays for.

    All arms begin with 1/8 of the schedule. The better half, by scores and losses on dev, continues to 1/4, half of
    these to 1/2, and half of these to the end, where halving continues over seeds until two remain. If the steps do
    not pay for one seed of that, more than half leave each time. The remaining steps are spent on extra seeds, each
    time for the stage with the largest drop in the risk of eliminating the best arm per step. If the steps pay for the
    grid, the plan is one stage in which no arm leaves.

    Whole runs on fewer than three pairs cannot be tested. A budget that pays for no more ends at the length with the
    smallest risk of eliminating the best arm: several seeds of shorter runs show more than one whole run.

    Raises:
        UsageError: if the steps do not pay for an eighth of one run of each arm.
    Source:
        Successive halving: Jamieson and Talwalkar 2016, Non-stochastic best arm identification and hyperparameter
        optimization, https://arxiv.org/abs/1502.07943.
        Differs: seeds and the last length are chosen by expected error, not by an equal share for each stage.
    """
    count, tasks = len(grid.arms), len(grid.steps)
    if allowed >= grid.total_steps:
        return (Stage(count, 8, len(grid.seeds)),)
    plans = []
    for longest in EIGHTHS:
        halvings = (_halving(count, divisor, longest) for divisor in (*_DIVISORS, max(count, 2)))
        paid = next((stages for stages in halvings if _cost(grid, stages) <= allowed), None)
        if paid is not None:
            plans.append(_with_seeds(grid, paid, allowed))
    tested = [each for each in plans if each[-1].eighths == 8 and each[-1].seeds * tasks >= FEWEST_PAIRS]
    if plans:
        return min(tested or plans, key=lambda stages: _risk(stages, tasks))
    need = count * grid.seed_steps(1)
    raise UsageError(
        f"The budget allows {allowed:,} optimizer steps; an eighth of one run of each of {count} arms takes {need:,}, "
        f"which is {need / grid.total_steps:.2g} of the grid. Allow more, or compare fewer arms."
    )


def _halving(count: int, divisor: int, longest: int) -> tuple[Stage, ...]:
    """Return stages of one seed: all lengths up to the longest, and at that length until two arms remain."""
    lengths = [each for each in EIGHTHS if each <= longest]
    counts = [count]
    while counts[-1] > 2 or len(counts) < len(lengths):
        counts.append(max(min(count, 2), -(-counts[-1] // divisor)))
    lengths += [longest] * (len(counts) - len(lengths))
    stages = [Stage(arms, length, 1) for arms, length in zip(counts, lengths, strict=True)]
    # A stage after which nobody would leave is a part of the next.
    return (*(stage for stage, later in pairwise(stages) if stage.arms > later.arms), stages[-1])


def _cost(grid: FullGrid, stages: tuple[Stage, ...]) -> int:
    """Return the steps of all stages, whose runs resume from the stage before."""
    total, before = 0, Stage(0, 0, 0)
    for stage in stages:
        whole = grid.seed_steps(stage.eighths)
        resumed = whole - grid.seed_steps(before.eighths)
        total += stage.arms * (before.seeds * resumed + (stage.seeds - before.seeds) * whole)
        before = stage
    return total


def _with_seeds(grid: FullGrid, stages: tuple[Stage, ...], allowed: int) -> tuple[Stage, ...]:
    """Return the stages with the extra seeds that the remaining steps pay for."""
    tasks = len(grid.steps)
    while True:
        spent = _cost(grid, stages)
        moves = [_raised(stages, place) for place in range(len(stages)) if stages[place].seeds < len(grid.seeds)]
        paid = [(_cost(grid, move) - spent, move) for move in moves]
        paid = [(max(cost, 1), move) for cost, move in paid if spent + cost <= allowed]
        if not paid:
            return stages
        risk = _risk(stages, tasks)
        stages = max(paid, key=lambda each: (risk - _risk(each[1], tasks)) / each[0])[1]


def _raised(stages: tuple[Stage, ...], place: int) -> tuple[Stage, ...]:
    """Return the stages with one more seed for one of them, and at least as many for those after it."""
    seeds = stages[place].seeds + 1
    later = (replace(stage, seeds=max(stage.seeds, seeds)) for stage in stages[place:])
    return (*stages[:place], *later)


def _risk(stages: tuple[Stage, ...], tasks: int) -> float:
    """Return the chance, summed over stages, that an arm that leads all others by ``_LEAD`` leaves."""
    remaining = [*(stage.arms for stage in stages[1:]), 1]
    return sum(
        _leaves(stage.arms, after, stage.eighths, stage.seeds * tasks)
        for stage, after in zip(stages, remaining, strict=True)
    )


@lru_cache(maxsize=4096)
def _leaves(arms: int, remaining: int, eighths: int, pairs: int) -> float:
    """Return the chance that ``remaining`` of the others score above the best arm in the mean of n pairs."""
    from scipy.special import bdtrc, ndtr  # takes a moment, which listing commands need not wait for

    if remaining >= arms:
        return 0.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    spread = (_NOISE[eighths] ** 2 / pairs + _SHIFT[eighths] ** 2) ** 0.5
    above = ndtr(-(nodes + _LEAD / spread))
    return float(weights @ bdtrc(remaining - 1, arms - 1, above) / weights.sum())
