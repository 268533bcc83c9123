"""A study's progress that also says what leads, and what left the race and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gradgate.runs.progress import RunProgress
from gradgate.study.budget.file import read_budget
from gradgate.study.progress import StudyProgress


class LeaderNotes:
    """Passes everything on, and adds a line whenever another arm leads or one leaves.

    Args:
        folder: of the study.
        inner: what shows the progress.
    """

    def __init__(self, folder: Path, inner: StudyProgress) -> None:
        self._folder, self._inner = folder, inner
        self._told: set[str] = set()
        self._leader = ""

    def begin_study(self, total: int, finished: int) -> None:
        self._inner.begin_study(total, finished)

    def begin_run(self, label: str) -> RunProgress:
        self._tell()
        return self._inner.begin_run(label)

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self._inner.end_run(label, outcome, failed)

    def count(self, states: Mapping[str, int]) -> None:
        self._inner.count(states)

    def note(self, text: str) -> None:
        self._inner.note(text)

    def _tell(self) -> None:
        """Say what the race's file has that was not said yet; it is written before runs are queued."""
        record = read_budget(self._folder)
        if record is None or not record.verdict.pairs:
            return
        new = [left.reason for left in record.verdict.departures if left.arm not in self._told]
        self._told |= {left.arm for left in record.verdict.departures}
        for reason in new:
            self._inner.note(reason)
        leader = next(iter(record.remaining), "")
        if leader and (new or leader != self._leader):
            spent = f"{record.verdict.steps_spent:,} of {record.steps_allowed:,} steps"
            self._inner.note(
                f"{leader} leads on dev, {len(record.remaining)} of {len(record.arms)} are left ({spent})."
            )
        self._leader = leader
