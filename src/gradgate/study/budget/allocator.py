"""Decide what to train next within a budget and what the budget has found, from the progress of the runs alone.

::

    while batch := allocator.next(observed):
        ...  # train each run to its step, and observe all runs again
    verdict = allocator.verdict(observed)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gradgate.study.budget.evidence import LEVEL, Look, plan_looks
from gradgate.study.budget.full_grid import EIGHTHS, FullGrid, RunKey, Targets
from gradgate.study.budget.judging import Compared, LookResult, judge, pairs_for, seen_by_length
from gradgate.study.budget.stages import Stage, can_name_a_winner, plan_stages, smallest_test
from gradgate.study.budget.standing import UNKNOWN, Observed, Standing, standing
from gradgate.study.budget.verdict import BudgetVerdict, Needed

_AS_CHEAP = 1.1
"""Arms up to this many times the seconds per step of the cheapest cost the same: timings differ by as much."""


@dataclass(frozen=True)
class Allocator:
    """Spends at most a number of optimizer steps on the question which arm of a grid is the best.

    It has no state: the same observations give the same answer, whether they came one by one, after a kill, or from
    a budget that was raised. Only scores on dev decide.

    Args:
        grid: what the budget is a part of.
        steps_allowed: optimizer steps of all runs together, with those that were trained before.
        earlier_verdicts: how many verdicts the study gave with fewer steps or seeds; each makes the next test stricter.
        looks_early: whether a clear winner may end the budget early; not after it was raised before its verdict.

    Raises:
        UsageError: if the steps do not pay for an eighth of one run of each arm.
    """

    grid: FullGrid
    steps_allowed: int
    earlier_verdicts: int = 0
    looks_early: bool = True

    def __post_init__(self) -> None:
        self.stages  # noqa: B018  # a budget that is too small is refused at once

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The plan. It follows from the grid and the steps, not from scores."""
        return plan_stages(self.grid, self.steps_allowed)

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """The planned tests."""
        return plan_looks(self.stages[-1], len(self.grid.steps), self.earlier_verdicts, early=self.looks_early)

    @property
    def can_name_a_winner(self) -> bool:
        """Whether the plan ends with a test of all arms: each has a whole run, and the last ones have two pairs."""
        return can_name_a_winner(self.stages, len(self.grid.steps))

    @cached_property
    def promise(self) -> str:
        """A sentence on what the plan can and cannot decide, before anything is trained."""
        arms, seeds = len(self.grid.arms), len(self.grid.seeds)
        size = f"With {arms} arm{'s' * (arms != 1)} and {seeds} seed{'s' * (seeds != 1)} this budget"
        if self.can_name_a_winner:
            return f"{size} trains each arm in full and tests the leader against all others."
        least = smallest_test(self.grid)
        more = "no budget can: add seeds" if least is None else f"{self._share(least)} can"
        early = self.stages[0].eighths
        cut = f" All arms first stop at {early}/8 of the schedule, and those dropped there are not compared."
        dropped = cut if early < EIGHTHS[-1] and len(self.stages) > 1 else ""
        return f"{size} ranks the arms but cannot test them; {more}.{dropped}"

    def _share(self, steps: int) -> str:
        """Return the share of the grid that a number of steps is, rounded up to two digits."""
        hundredths = -(-100 * steps // self.grid.total_steps)
        return f"a budget of {hundredths / 100:g}"

    def spent(self, observed: Observed) -> int:
        """Return the optimizer steps of all runs."""
        return sum(progress.step for progress in observed.values())

    def next(self, observed: Observed) -> Targets:
        """Return the runs to train now, in any order and at the same time; none once the verdict is final.

        They are whole seeds: all arms of the stage, so that each seed is a pair for all of them.
        """
        now = standing(self.grid, self.stages, observed)
        return {} if self._early(now) is not None else self._batch(now, observed)

    def raised_to(self, steps_allowed: int) -> Allocator:
        """Return the plan of a larger budget, in place of this one before its verdict."""
        return replace(self, steps_allowed=steps_allowed, looks_early=False)

    def ended_early(self, observed: Observed) -> bool:
        """Return whether the early look found a winner, so that the remaining steps are not needed."""
        return self._early(standing(self.grid, self.stages, observed)) is not None

    def finding(self, observed: Observed) -> LookResult:
        """Return who leads and who is significantly worse: the part of the verdict that a test decides."""
        return self._finding(standing(self.grid, self.stages, observed), observed)

    def method_won(self, finding: LookResult) -> str | None:
        """Return the method of all winners if it is significantly better than another, at any rate; else None."""
        methods = {self.grid.method_of(arm) for arm in finding.winners}
        against = {self.grid.method_of(arm) for arm in finding.beaten} - methods
        return next(iter(methods)) if len(methods) == 1 and (finding.decided or against) else None

    def verdict(self, observed: Observed) -> BudgetVerdict:
        """Return what the observations say. It is final once :meth:`next` is empty."""
        now = standing(self.grid, self.stages, observed)
        finding = self._finding(now, observed)
        return BudgetVerdict(
            winners=finding.winners,
            decided=finding.decided,
            method=self.method_won(finding),
            cheapest=self._cheapest(finding.winners, observed),
            confidence=1 - LEVEL if finding.decided else None,
            how=finding.how,
            unsettled=finding.unsettled,
            uncompared=finding.uncompared,
            beaten=finding.beaten,
            within=finding.within,
            tested=finding.tested,
            p=finding.p,
            pairs=finding.pairs,
            step_share=now.compared[-1].stage.eighths / 8,
            steps_of_grid=self.grid.total_steps,
            steps_allowed=self.steps_allowed,
            steps_spent=self.spent(observed),
            departures=now.departures,
            not_looked_at=self._not_looked_at(observed),
            needed=None if finding.decided else self._needed(now, finding, observed),
            factor=self.grid.factor,
        )

    def _finding(self, now: Standing, observed: Observed) -> LookResult:
        early = self._early(now)
        if early is not None:
            return early
        look = None if self._batch(now, observed) else self.looks[-1]
        return judge(now.compared, look)

    def _batch(self, now: Standing, observed: Observed) -> Targets:
        """Return whole seeds of what the stage lacks, as many as the remaining steps pay for."""
        if len(now.arms) < 2 or not now.missing:
            return {}
        left, batch = self.steps_allowed - self.spent(observed), dict[RunKey, int]()
        for targets in self._until_look(now):
            cost = sum(until - observed.get(key, UNKNOWN).step for key, until in targets.items())
            if cost > left:
                break
            left -= cost
            batch |= targets
        return batch

    def _until_look(self, now: Standing) -> tuple[Targets, ...]:
        """Return what the stage lacks; in the last stage, what its early look lacks comes first and alone."""
        early = self.looks[0].seeds
        key, until = next(iter(now.missing[0].items()))
        if early is None or until < self.grid.until(key.task, 8):
            return now.missing
        before = set(self.grid.seeds[:early])
        return tuple(targets for targets in now.missing if next(iter(targets)).seed in before) or now.missing

    def _early(self, now: Standing) -> LookResult | None:
        """Return the finding of the early look if it was made and decided."""
        early, last = self.looks[0].seeds, now.compared[-1]
        if early is None or not now.is_last or len(now.arms) < 2:
            return None
        pairs = early * len(self.grid.steps)
        if any(len(scores) < pairs for scores in last.table.values()):
            return None
        first = {arm: scores[:pairs] for arm, scores in last.table.items()}
        ranked = dict(sorted(first.items(), key=lambda item: -sum(item[1])))
        finding = judge((*now.compared[:-1], Compared(last.stage, ranked)), self.looks[0])
        return finding if finding.decided else None

    def _cheapest(self, winners: Sequence[str], observed: Observed) -> str | None:
        """Return the winner with the fewest seconds per step, or a better one of about as many.

        If the seconds are unknown for one of them, it is the first.
        """
        cost = {}
        for arm in winners:
            runs = [progress for key, progress in observed.items() if key.arm == arm and progress.seconds is not None]
            steps = sum(progress.step for progress in runs)
            if steps:
                cost[arm] = sum(progress.seconds or 0.0 for progress in runs) / steps
        if len(cost) < len(winners) or not winners:
            return winners[0] if winners else None
        return next(arm for arm in winners if cost[arm] <= _AS_CHEAP * min(cost.values()))

    def _not_looked_at(self, observed: Observed) -> str:
        grid = self.grid
        begun = [key for key, progress in observed.items() if progress.step]
        whole = {key.arm for key in begun if observed[key].step >= grid.steps[key.task]}
        left, unknown = grid.runs - len(begun), len(grid.arms) - len(whole)
        found = [f"{left} of {grid.runs} runs were never started."] if left else []
        if unknown:
            found.append(f"{unknown} of {len(grid.arms)} arms have no full run, so their final scores are unknown.")
        return " ".join(found)

    def _needed(self, now: Standing, finding: LookResult, observed: Observed) -> Needed | None:
        nearest = finding.nearest
        if nearest is None:
            return None
        pairs = pairs_for(nearest, seen_by_length(now.compared), self.looks[-1].level)
        if pairs is None:
            return None
        tasks = self.grid.steps
        have = min(
            sum(observed.get(RunKey(arm, task, seed), UNKNOWN).step >= steps for seed in self.grid.seeds)
            for arm in (now.arms[0], nearest.arm)
            for task, steps in tasks.items()
        )
        seeds = max(1, -(-pairs // len(tasks)) - have)
        return Needed(nearest.arm, max(pairs, (have + 1) * len(tasks)), seeds, 2 * seeds * self.grid.seed_steps(8))
