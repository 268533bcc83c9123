"""Keep a race within its minutes: start a run only if it can end in time, with the final model still to come."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from gradgate.study.budget import Allocator, FullGrid, Observed, RunKey, Targets
from gradgate.study.budget.stages import WHOLE
from gradgate.study.budget.standing import UNKNOWN
from gradgate.study.progress import StudyProgress
from gradgate.study.recommend.record import RecommendRecord, write_recommend
from gradgate.study.recommend.time_plan import REPORT, larger_plan, minutes, piece_seconds, seconds_to_end

_SHARE = 4  # runs that start together fill this part of what is left, so that a wrong estimate is noticed


class RaceClock:
    """Says which runs of a race may start.

    A run's time is what was measured for its arm, times how much longer the runs so far took than was measured.

    Args:
        folder: of the study, whose ``recommend.json`` has the time spent.
        record: of the recommendation.
        grid: of the study.
        began: by :func:`time.monotonic`, when the process of this call started.
        progress: is told if time is up.
    """

    def __init__(
        self, folder: Path, record: RecommendRecord, grid: FullGrid, began: float, progress: StudyProgress
    ) -> None:
        self.record = record
        self._folder, self._grid, self._progress = folder, grid, progress
        self.steps = grid.steps
        self._before, self._began = record.seconds_spent, began
        self._started: tuple[float, float] | None = None
        self._slower = 1.0

    @property
    def spent(self) -> float:
        """Seconds of this call and those before it."""
        return self._before + time.monotonic() - self._began

    def in_time(self, batch: Targets, observed: Observed) -> Targets:
        """Return those of some runs that may start now; none if time is up."""
        self._compare()
        if self.record.stopped or not batch:
            self.note()
            return {}
        left = 60 * self.record.minutes - self.spent - REPORT
        left -= self._slower * max(self._final(key, until) for key, until in batch.items())
        chosen, total = dict[RunKey, int](), 0.0
        begun = {key.arm for key in observed}
        for key, until in batch.items():
            cost = self.record.costs.arms[key.arm]
            seconds = piece_seconds(self._grid, cost, key, observed.get(key, UNKNOWN).step, until, WHOLE)
            seconds += 0.0 if key.arm in begun else cost.once
            begun.add(key.arm)
            if self._slower * (total + seconds) > left or total * self._slower > left / _SHARE:
                break
            chosen[key], total = until, total + seconds
        if not chosen:
            self.record = replace(self.record, stopped=True)
            self._progress.note(
                f"{minutes(self.spent)} of {minutes(60 * self.record.minutes)} are spent, and the next run would "
                "not finish in time, so the comparison stops here."
            )
        self.note()
        self._started = time.monotonic(), total
        return chosen

    def raised(self, allocator: Allocator, observed: Observed) -> int:
        """Return the steps that the race may have in all, as the plan left time for more expensive arms."""
        self._compare()
        if self.record.stopped:
            return allocator.steps_allowed
        left = (60 * self.record.minutes - self.spent) / self._slower
        allowed = larger_plan(allocator, observed, self.record.costs, left)
        if allowed > allocator.steps_allowed:
            can_test = allocator.raised_to(allowed).can_name_a_winner
            plan = replace(self.record.plan, steps_allowed=allowed, can_test=can_test)
            self.record = replace(self.record, plan=plan)
            self._progress.note(
                f"{minutes(60 * self.record.minutes - self.spent)} are left, so up to "
                f"{allowed - allocator.steps_allowed:,} more steps are trained"
                f"{', which pay for a test' if can_test and not allocator.can_name_a_winner else ''}."
            )
        self.note()
        return allowed

    def can_finish(self, arm: str, observed: Observed) -> bool:
        """Return whether the run of an arm that is furthest can end in time."""
        seconds = self._slower * seconds_to_end(self._grid, arm, self.record.costs, observed)
        return seconds <= 60 * self.record.minutes - self.spent - REPORT

    def _final(self, key: RunKey, until: int) -> float:
        """Return the seconds from a length of a run to its end."""
        whole = self._grid.steps[key.task]
        if until >= whole:
            return 0.0
        return piece_seconds(self._grid, self.record.costs.arms[key.arm], key, until, whole, WHOLE)

    def _compare(self) -> None:
        """Compare how long the runs took that started last with what was expected."""
        if self._started is None or not self._started[1]:
            return
        began, expected = self._started
        self._slower = max(1.0, (self._slower + (time.monotonic() - began) / expected) / 2)
        self._started = None

    def note(self) -> None:
        """Write the time spent so far."""
        self.record = replace(self.record, seconds_spent=self.spent)
        write_recommend(self._folder, self.record)
