"""Plan a budget: how many arms are trained how far, on how many seeds.

The plan follows from the size of the grid and the allowed steps, not from scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gradgate.errors import UsageError
from gradgate.study.budget.full_grid import EIGHTHS, FullGrid

FEWEST_PAIRS = 3
"""The fewest pairs of whole runs that an early look tests."""
FEWEST_TESTED = 2
"""The fewest pairs of whole runs that are tested at the end."""
WHOLE = EIGHTHS[-1]
# What a run shows at each length, in standard deviations of a whole run's own noise. Of 44 sets of values, these put
# an arm first that is within one of the best most often, over five sizes, two shares and six kinds of simulated curves.
_LEAD = 1.5
"""The lead for which the plan is best: that of the best arm over each other."""
_NOISE = {1: 1.5, 2: 1.2, 4: 1.0, 8: 1.0}
"""Eighths of the schedule to the noise of a run that does not collapse."""
_COLLAPSE = 1.2
"""The noise of runs that collapse, at each length.

Without it the last stage has fewer seeds, and an arm of which three runs in ten collapse often shows none of them.
"""
_SHIFT = {1: 2.0, 2: 1.2, 4: 0.45, 8: 0.0}
"""Eighths of the schedule to how far arms are from where they end, which no number of seeds takes away."""
_FINALISTS = (2, 3, 4)
_NODES = 31


@dataclass(frozen=True)
class Stage:
    """``arms`` arms are trained to ``eighths`` eighths of the schedule on the first ``seeds`` seeds."""

    arms: int
    eighths: int
    seeds: int


Plan = tuple[Stage, ...]


def plan_stages(grid: FullGrid, allowed: int) -> Plan:
    """Return the stages that a number of optimizer steps pays for: the late cut.

    If the steps pay for one whole run of each arm and half as much again, no arm leaves before its end. Otherwise all
    arms run on one seed to half of the schedule if that takes at most half of the steps, else to a quarter if the steps
    pay for it, else to an eighth. The rest is spent on one or two further stages of fewer arms. Of all such plans, the
    one with the smallest risk of eliminating the best arm is returned, the cheapest of equal ones. If the steps pay for
    the grid, no arm leaves.

    Arms that start slowly, such as LoRA and gradual unfreezing, lose at an eighth against arms that end below them. A
    late first cut costs little on other curves.

    Raises:
        UsageError: if the steps do not pay for an eighth of one run of each arm.
    """
    count = len(grid.arms)
    if allowed >= grid.total_steps:
        return (Stage(count, WHOLE, len(grid.seeds)),)
    first = _first_stages(grid, allowed)
    if not first:
        need = count * grid.seed_steps(1)
        raise UsageError(
            f"The budget allows {allowed:,} optimizer steps; an eighth of one run of each of {count} arms takes "
            f"{need:,}, which is {need / grid.total_steps:.2g} of the grid. Allow more steps, or compare fewer "
            "arms."
        )
    plans = [plan for stage in first for plan in _plans(grid, stage, allowed)]
    cut = [plan for plan in plans if len(plan) > 1 or plan[0].eighths == WHOLE or count < 3]
    tasks = len(grid.steps)
    return min(cut or plans, key=lambda plan: (_risk(plan, tasks), _cost(grid, plan)))


def can_name_a_winner(plan: Plan, tasks: int) -> bool:
    """Return True if a plan ends with a test of all arms: each has a whole run, and those that remain have two."""
    return plan[0].eighths == WHOLE and plan[-1].seeds * tasks >= FEWEST_TESTED


def smallest_test(grid: FullGrid) -> int | None:
    """Return the fewest optimizer steps whose plan can name a winner; None if the whole grid cannot."""
    tasks, high = len(grid.steps), grid.total_steps
    if not can_name_a_winner(plan_stages(grid, high), tasks):
        return None
    low = min(high, -(-3 * len(grid.arms) * grid.seed_steps(WHOLE) // 2))
    while low < high:  # more steps never take the test away
        if can_name_a_winner(plan_stages(grid, low), tasks):
            return low
        middle = (low + high) // 2
        if can_name_a_winner(plan_stages(grid, middle), tasks):
            high = middle
        else:
            low = middle + 1
    return high


def _first_stages(grid: FullGrid, allowed: int) -> list[Stage]:
    """Return the stages with which a plan may begin."""
    count, whole = len(grid.arms), len(grid.arms) * grid.seed_steps(WHOLE)
    if 2 * allowed >= 3 * whole:
        return [Stage(count, WHOLE, seeds) for seeds in range(1, min(len(grid.seeds), allowed // whole) + 1)]
    paid = [each for each in EIGHTHS if count * grid.seed_steps(each) <= allowed]
    if count < 3:  # nobody can leave before the last stage
        seeds = range(1, len(grid.seeds) + 1)
        return [Stage(count, each, n) for each in paid for n in seeds if n * count * grid.seed_steps(each) <= allowed]
    half = [each for each in paid if each < WHOLE and 2 * count * grid.seed_steps(each) <= allowed]
    quarter = [each for each in paid if each <= EIGHTHS[1]]
    return [Stage(count, max([*half, *quarter]), 1)] if paid else []


def _plans(grid: FullGrid, first: Stage, allowed: int) -> Iterator[Plan]:
    """Yield every plan of up to three stages that begins with a stage."""
    yield (first,)
    for second in _later(grid, first):
        plan = first, second
        if _cost(grid, plan) > allowed:
            continue
        yield plan
        for third in _later(grid, second):
            if third.arms in _FINALISTS and third.eighths >= EIGHTHS[-2] and _cost(grid, (*plan, third)) <= allowed:
                yield *plan, third


def _later(grid: FullGrid, before: Stage) -> Iterator[Stage]:
    """Yield stages of fewer arms, with longer runs, more seeds or both."""
    count = len(grid.arms)
    sizes = {*range(2, 7), 8, -(-count // 4), -(-count // 3), -(-count // 2)}
    for arms in sorted(size for size in sizes if 2 <= size < before.arms):
        for eighths in (each for each in EIGHTHS if each >= before.eighths):
            for seeds in range(before.seeds, len(grid.seeds) + 1):
                if (eighths, seeds) != (before.eighths, before.seeds):
                    yield Stage(arms, eighths, seeds)


def _cost(grid: FullGrid, plan: Plan) -> int:
    """Return the steps of all stages, whose runs resume from the stage before."""
    total, before = 0, Stage(0, 0, 0)
    for stage in plan:
        whole = grid.seed_steps(stage.eighths)
        resumed = whole - (grid.seed_steps(before.eighths) if before.eighths else 0)
        total += stage.arms * (before.seeds * resumed + (stage.seeds - before.seeds) * whole)
        before = stage
    return total


def _risk(plan: Plan, tasks: int) -> float:
    """Return the chance, summed over stages, that an arm that leads all others by ``_LEAD`` leaves."""
    remaining = [*(stage.arms for stage in plan[1:]), 1]
    return sum(
        _leaves(stage.arms, after, stage.eighths, stage.seeds * tasks)
        for stage, after in zip(plan, remaining, strict=True)
    )


@lru_cache(maxsize=4096)
def _leaves(arms: int, remaining: int, eighths: int, pairs: int) -> float:
    """Return the chance that ``remaining`` of the others score above the best arm in the mean of n pairs."""
    from scipy.special import bdtrc, ndtr  # takes a moment, which listing commands need not wait for

    if remaining >= arms:
        return 0.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    spread = ((_NOISE[eighths] ** 2 + _COLLAPSE**2) / pairs + _SHIFT[eighths] ** 2) ** 0.5
    above = ndtr(-(nodes + _LEAD / spread))
    return float(weights @ bdtrc(remaining - 1, arms - 1, above) / weights.sum())
