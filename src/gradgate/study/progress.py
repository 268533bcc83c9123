"""Show a study's progress on a terminal: one bar for all its runs, and one for the steps of each run under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rich.progress import Progress, TaskID
from rich.text import Text

from gradgate.console import PlainConsole
from gradgate.runs.progress import RunProgress, Silent, bars
from gradgate.runs.state import RunState

_ENDED = (RunState.FINISHED, RunState.PAUSED, RunState.FAILED, RunState.PRUNED)
_SHOWN = (RunState.WAITING, RunState.RUNNING, RunState.PAUSED, RunState.FAILED)


class StudyProgress(Protocol):
    """Receives what a study reports about its runs; the methods are called from several threads."""

    def begin_study(self, total: int, finished: int) -> None:
        """Start with ``finished`` of ``total`` runs."""

    def begin_run(self, label: str) -> RunProgress:
        """Start a run. Return the receiver of its steps."""

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        """End a run with its score or its error."""

    def count(self, states: Mapping[RunState, int]) -> None:
        """Show the states of the study's runs, here and elsewhere: state to number of runs."""

    def note(self, text: str) -> None:
        """Show a message."""


class SilentStudy:
    """Reports nothing."""

    def begin_study(self, total: int, finished: int) -> None: ...

    def begin_run(self, label: str) -> RunProgress:
        return Silent()

    def end_run(self, label: str, outcome: str, failed: bool) -> None: ...

    def count(self, states: Mapping[RunState, int]) -> None: ...

    def note(self, text: str) -> None: ...


class StudyBars:
    """One bar for the study, one for each run under way, and a line for each run that has ended.

    Use as a context manager.
    """

    def __init__(self, console: PlainConsole) -> None:
        self._console = console
        self._bars = bars(console)
        self._runs = self._bars.add_task("study", total=None, unit="runs", latest="starting")
        self._steps: dict[str, TaskID] = {}
        self._begun = False

    def __enter__(self) -> StudyBars:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._steps.values():
            self._bars.remove_task(task)
        self._steps = {}
        if not self._begun:  # nothing was done: the message that says so stands alone
            self._bars.update(self._runs, visible=False)
        self._bars.stop()

    def begin_study(self, total: int, finished: int) -> None:
        self._begun = True
        self._bars.update(self._runs, total=total, completed=finished)
        if finished:
            self.note(f"{finished} of {total} runs had finished before.")

    def begin_run(self, label: str) -> RunProgress:
        if label in self._steps:  # it was given back and claimed again
            self._bars.remove_task(self._steps.pop(label))
        task = self._bars.add_task(label, total=None, unit="steps", latest="loading")
        self._steps[label] = task
        return _Steps(self._bars, task, self._console)

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self._bars.remove_task(self._steps.pop(label))
        self._bars.advance(self._runs)
        mark = Text("failed  ", style="red") if failed else Text("done    ", style="green")
        self._console.print(mark + Text(f"{label}: {self._console.worded(outcome)}"), soft_wrap=True)

    def count(self, states: Mapping[RunState, int]) -> None:
        ended = sum(states.get(state, 0) for state in _ENDED)
        latest = ", ".join(f"{states[state]} {state}" for state in _SHOWN if state in states)
        self._bars.update(self._runs, completed=ended, total=sum(states.values()), latest=latest)

    def note(self, text: str) -> None:
        self._console.print(self._console.worded(text), soft_wrap=True)


class _Steps:
    def __init__(self, bars: Progress, task: TaskID, console: PlainConsole) -> None:
        self._console = console
        self._bars = bars
        self._task = task
        self._score = ""

    def begin(self, total: int, done: int) -> None:
        self._bars.update(self._task, total=total, completed=done, latest="")

    def advance(self, step: int, loss: float | None) -> None:
        latest = "  ".join(filter(None, ["" if loss is None else f"loss {loss:.3f}", self._score]))
        self._bars.update(self._task, completed=step, latest=latest)

    def scored(self, split: str, metric: str, score: float) -> None:
        self._score = f"{split} {metric} {score:.4f}"

    def note(self, text: str) -> None:
        self._console.print(self._console.worded(text), soft_wrap=True)
