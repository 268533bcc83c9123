"""Turn minutes into a budget: which arms compete, in how many optimizer steps, and what that can decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gradgate.errors import UsageError
from gradgate.runs.state import Progress, RunState
from gradgate.study.budget import Allocator, FullGrid, Observed, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.budget.stages import WHOLE, smallest_test
from gradgate.study.recommend.costs import ArmCost, Costs

_MARGIN = 0.95  # of the minutes are planned; that the most expensive arms stay is a margin as well
_HALVINGS = 12
_FIRST_CUT = 2  # eighths of the schedule: scores before say little of how slow arms end
REPORT = 8.0
"""Seconds to read the study again and to write the report."""


@dataclass(frozen=True, kw_only=True)
class TimePlan:
    """The arms and steps that fit into some minutes.

    Attributes:
        arms: that compete.
        dropped: arms that fitted the model and that these minutes do not pay for, the last to be dropped first.
        steps_allowed: the budget, in optimizer steps of all runs.
        seconds: that it takes at most, by the costs that were measured before training.
        can_test: whether it ends with a test, so that it can name a winner.
        seconds_to_test: that the same arms need for one; None if they have too few seeds.
    """

    arms: tuple[str, ...]
    dropped: tuple[str, ...]
    steps_allowed: int
    seconds: float
    can_test: bool
    seconds_to_test: float | None

    @property
    def said(self) -> str:
        """A sentence on what the minutes can decide, before anything is trained."""
        arms = f"{len(self.arms)} arms"
        if self.seconds_to_test is None:
            return f"One seed is not enough to test {arms}, so there will be no winner. Pass seeds=2 or more."
        needed = f"about {minutes(self.seconds_to_test)}"
        if self.can_test:
            return f"A test of {arms} takes {needed} here, which fits: it may find a winner or a tie."
        return (
            f"A test of {arms} takes {needed} here. The time given only ranks them without a test, so there will "
            "be no winner unless runs take less time than planned."
        )


def plan_time(grid: FullGrid, costs: Costs, priority: Sequence[str], seconds: float, fewest: int = 2) -> TimePlan:
    """Return the largest budget that fits into some seconds, with as many arms as it pays for.

    A budget is played through with the costs of each arm and scores that keep the most expensive ones to the end, so
    that the plan holds whichever arms are left.

    Args:
        grid: of all arms.
        costs: of its arms.
        priority: arms from the first that leaves to the last, if not all of them fit; others stay.
        seconds: that are left.
        fewest: arms that a race needs, 2 or more.

    Raises:
        UsageError: if they do not pay for these.
    """
    arms, dropped, leaving = list(grid.arms), list[str](), list(priority)
    while True:
        each = replace(grid, arms=tuple(arms))
        least = _least(each)
        shortest = played(Allocator(each, least), costs)
        if shortest <= _MARGIN * seconds:
            break
        leaver = next((arm for arm in leaving if arm in arms), None)
        if leaver is None or len(arms) <= fewest:
            left = f"leaves {minutes(seconds)}" if seconds > 0 else "leaves no time"
            raise UsageError(
                f"minutes= {left} after timing the first steps, but {', '.join(arms)} take "
                f"about {minutes(shortest / _MARGIN)} on this machine at its current load. Pass more minutes=, "
                "fewer steps= or a smaller train_size=."
            )
        arms.remove(leaver)
        dropped.insert(0, leaver)
    allowed = _nearest(
        each.total_steps, least, lambda steps: played(Allocator(each, steps), costs) <= _MARGIN * seconds
    )
    testing = smallest_test(each)
    return TimePlan(
        arms=tuple(arms),
        dropped=tuple(dropped),
        steps_allowed=allowed,
        seconds=played(Allocator(each, allowed), costs),
        can_test=Allocator(each, allowed).can_name_a_winner,
        seconds_to_test=None if testing is None else played(Allocator(each, testing), costs) / _MARGIN,
    )


def larger_plan(allocator: Allocator, observed: Observed, costs: Costs, seconds: float) -> int:
    """Return the steps of the largest budget whose further runs fit into some seconds; its own if none does.

    Arms are taken to stay in the order of their scores so far.
    """

    def fits(steps: int) -> bool:
        return played(allocator.raised_to(steps), costs, observed) <= _MARGIN * seconds

    own = allocator.steps_allowed
    if own >= allocator.grid.total_steps:
        return own
    found = _nearest(allocator.grid.total_steps, own, fits)
    return found if allocator.raised_to(found).next(observed) else own


def played(allocator: Allocator, costs: Costs, observed: Observed | None = None) -> float:
    """Return the seconds that a budget takes from here on, with the final model and the report.

    Args:
        allocator: that spends it.
        costs: of its arms.
        observed: what was trained. Without scores of an arm, the most expensive arms stay.
    """
    grid, seen, total = allocator.grid, dict(observed or {}), REPORT
    first, scores = allocator.stages[0].eighths, _expected_scores(grid, costs, seen)
    while batch := allocator.next(seen):
        for key, until in batch.items():
            before = seen.get(key, Progress(state=RunState.MISSING))
            total += piece_seconds(grid, costs.arms[key.arm], key, before.step, until, first)
            total += costs.arms[key.arm].once if _is_first(key, seen) else 0.0
            is_whole = until >= grid.steps[key.task]
            seen[key] = Progress(
                until,
                {**before.dev, until: scores[key.arm]},
                state=RunState.FINISHED if is_whole else RunState.PAUSED,
                of_steps=grid.steps[key.task],
            )
    return total + max((seconds_to_end(grid, arm, costs, seen) for arm in allocator.finding(seen).winners), default=0.0)


def _expected_scores(grid: FullGrid, costs: Costs, observed: Observed) -> dict[str, float]:
    """Return arm to the score that its further runs are taken to have."""
    dearest = sorted(grid.arms, key=lambda arm: costs.arms[arm].step)
    sign = 1 if grid.higher_is_better else -1
    scores = {arm: 0.5 + sign * 1e-6 * place for place, arm in enumerate(dearest)}
    for arm in grid.arms:
        runs = [progress for key, progress in observed.items() if key.arm == arm and progress.dev]
        longest = max((max(run.dev) for run in runs), default=0)
        at_length = [run.dev[longest] for run in runs if longest in run.dev]
        scores |= {arm: fmean(at_length)} if at_length else {}
    return scores


def seconds_to_end(grid: FullGrid, arm: str, costs: Costs, observed: Observed) -> float:
    """Return the seconds to the end of the run of an arm that is furthest."""
    total = 0.0
    for task, steps in grid.steps.items():
        done = max((each.step for key, each in observed.items() if (key.arm, key.task) == (arm, task)), default=0)
        if done < steps:
            total += piece_seconds(grid, costs.arms[arm], RunKey(arm, task, grid.seeds[0]), done, steps, WHOLE)
    return total


def piece_seconds(grid: FullGrid, cost: ArmCost, key: RunKey, done: int, until: int, first: int) -> float:
    """Return the seconds in which a run gets from one step to another.

    It may pause at each length in between from ``first`` eighths of the schedule on.
    """
    lengths = {grid.until(key.task, eighths) for eighths in EIGHTHS if eighths >= first}
    pieces = 1 + sum(done < length < until for length in lengths)
    return cost.seconds(until - done, pieces) + (cost.tests if until >= grid.steps[key.task] else 0.0)


def minutes(seconds: float) -> str:
    """Return a time as people say it: ``40 seconds``, ``3.5 minutes``, ``2.1 hours``."""
    if seconds < 59.5:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _is_first(key: RunKey, observed: Mapping[RunKey, Progress]) -> bool:
    return not any(other.arm == key.arm for other in observed)


def _least(grid: FullGrid) -> int:
    """Return the smallest budget in which every arm gets to a quarter of its steps."""
    return _nearest(1, grid.total_steps, lambda steps: _is_planned(grid, steps))


def _is_planned(grid: FullGrid, steps: int) -> bool:
    try:
        return Allocator(grid, steps).stages[0].eighths >= _FIRST_CUT
    except UsageError:
        return False


def _nearest(wanted: int, known: int, holds: Callable[[int], bool]) -> int:
    """Return about the number nearest to one that is wanted for which something holds, which it does for ``known``."""
    if holds(wanted):
        return wanted
    for _ in range(_HALVINGS):
        middle = (wanted + known) // 2
        if middle in (wanted, known):
            break
        wanted, known = (wanted, middle) if holds(middle) else (middle, known)
    return known
