"""Report a study's progress together with which arm leads, and which left and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gradgate.runs.progress import RunProgress
from gradgate.runs.state import RunState
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
        self._noted: set[str] = set()
        self._leader = ""

    def begin_study(self, total: int, finished: int) -> None:
        self._inner.begin_study(total, finished)

    def begin_run(self, label: str) -> RunProgress:
        self._note_leader()
        return self._inner.begin_run(label)

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self._inner.end_run(label, outcome, failed)

    def count(self, states: Mapping[RunState, int]) -> None:
        self._inner.count(states)

    def note(self, text: str) -> None:
        self._inner.note(text)

    def _note_leader(self) -> None:
        """Note what is new in ``budget.json``, which is written before runs are queued."""
        record = read_budget(self._folder)
        if record is not None and record.promise and record.promise not in self._noted:
            self._noted.add(record.promise)
            self._inner.note(record.promise)
        if record is None or not record.verdict.pairs:
            return
        new = [left.reason for left in record.verdict.departures if left.arm not in self._noted]
        self._noted |= {left.arm for left in record.verdict.departures}
        for reason in new:
            self._inner.note(reason)
        leader = next(iter(record.remaining), "")
        if leader and (new or leader != self._leader):
            spent = f"{record.verdict.steps_spent:,} of {record.steps_allowed:,} steps"
            self._inner.note(
                f"{leader} {record.verdict.rank}; {len(record.remaining)} of {len(record.arms)} arms remain ({spent})."
            )
        self._leader = leader
