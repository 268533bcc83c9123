"""Measure parts in order within the minutes that there are, and write each result as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.gpu.page import page, shown
from benchmarks.gpu.parts import Part
from benchmarks.gpu.record import CaseRecord, MachineRecord, Records
from benchmarks.gpu.worker import Event, Send, Task, work

_LEAST = 5.0  # seconds that a part must have left to be begun


class Runs(Protocol):
    """Runs a part within a limit, and returns why it ended; empty if by itself."""

    def __call__(self, task: Task, limit: float, send: Send) -> str: ...


def in_this_process(task: Task, limit: float, send: Send) -> str:
    """Run a part here, for dry runs: nothing ends it at a limit."""
    work(task, send, leave_on_error=False)
    return ""


@dataclass
class Session:
    """One call of the command.

    Args:
        records: the file that results go to.
        record: of this machine.
        parts: to measure, in order.
        device: ``cuda`` or ``cpu``.
        dry: tiny shapes.
        seconds: that there are for all parts.
        run: how a part is run.
        say: prints a line.
    """

    records: Records
    record: MachineRecord
    parts: Sequence[Part]
    device: str
    dry: bool
    seconds: float
    run: Runs
    say: Callable[[str], None] = print
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    def measure(self) -> list[str]:
        """Measure all parts, and return the names of those that were not begun for lack of time."""
        waiting = []
        for number, part in enumerate(self.parts):
            left = self._until - time.monotonic()
            if left < _LEAST and not self.dry:
                waiting.append(part.name)
                continue
            # What a part leaves of its share goes to those after it.
            limit = left * part.seconds / sum(each.seconds for each in self.parts[number:])
            self._measure_part(part, limit)
        return waiting

    def _measure_part(self, part: Part, limit: float) -> None:
        until = time.monotonic() + limit
        self.say(f"{part.name}: {part.title}")
        tried: set[str] = set()
        while True:
            turn = _Turn(self, part, tried)
            why = self.run(self._task(part, tried), max(_LEAST, until - time.monotonic()), turn.on)
            turn.end(why)
            self._write()
            # After an error the process is gone; the next one takes the cases that are left.
            if not turn.left or why.startswith("the time limit") or until - time.monotonic() < _LEAST:
                break
        if turn.left:
            self.say(f"  left for another call: {', '.join(turn.left)}")

    def _task(self, part: Part, tried: set[str]) -> Task:
        cases = self.record.of(part.name)
        done = {case.name for case in cases if case.done} | tried
        prefix = f"{part.name}: "
        known = {
            row["part"].removeprefix(prefix): row["value"]
            for case in cases
            for row in case.rows
            if row["value"] is not None
        }
        failed = {case.name for case in cases if case.failure}
        return Task(part.name, part.module, self.device, self.dry, sorted(done), sorted(failed), known)

    def _write(self) -> None:
        self.records.write_results(self.record, page(self.records.machines))


class _Turn:
    """The events of one process."""

    def __init__(self, session: Session, part: Part, tried: set[str]) -> None:
        self.left: list[str] = []
        self._session, self._part, self._tried = session, part, tried
        self._case: CaseRecord | None = None

    def on(self, event: Event) -> None:
        """Take one event."""
        if event.kind == "cases":
            self.left = list(event.what)
        elif event.kind == "begin":
            self._case = self._session.record.begin(self._part.name, event.case)
            self._tried.add(event.case)
            self.left.remove(event.case)
        elif self._case is not None and event.kind == "figure":
            self._case.rows.append(event.what)
            self._session.say(_line(event.what))
            self._session.records.write()
        elif self._case is not None:
            self._finish(self._case, event)

    def _finish(self, case: CaseRecord, event: Event) -> None:
        if event.kind == "end":
            case.done, case.seconds = True, event.what
        else:
            out = event.kind == "memory"
            case.done, case.failure = out, f"out of memory ({event.what})" if out else event.what
            self._session.say(f"  {case.name}: {case.failure}")
        self._case = None

    def end(self, why: str) -> None:
        """Note why the process ended, in the case that it was at."""
        if self._case is not None:
            self._finish(self._case, Event("error", what=f"ended by {why or 'itself'}"))
        elif why:
            self._session.say(f"  ended by {why}")


def _line(row: dict[str, object]) -> str:
    value = row["value"]
    number = shown(value if isinstance(value, int | float) else None)
    said = {True: "met", False: "MISSED", None: "not judged"}[row["met"]] if row["goal"] else ""  # type: ignore[index]
    goal = f"   {row['goal']}: {said}" if row["goal"] else ""
    note = f"   ({row['note']})" if row["note"] else ""
    return f"  {row['part']!s:<76}{number:>10} {row['unit']}{goal}{note}"
