"""A study's progress on a terminal: one bar for the runs, one for the steps of the current run."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from gradgate.training.progress import RunProgress, Silent


class SilentStudy:
    """Tells nothing."""

    def begin_study(self, total: int, finished: int) -> None: ...

    def begin_run(self, label: str) -> RunProgress:
        return Silent()

    def end_run(self, label: str, outcome: str, failed: bool) -> None: ...

    def note(self, text: str) -> None: ...


class StudyBars:
    """Two bars, and a line for each run that has ended. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[latest]}", markup=False),
            console=console,
        )
        self._runs = self._bars.add_task("study", total=None, unit="runs", latest="")
        self._steps = self._bars.add_task("starting", total=None, unit="steps", latest="")

    def __enter__(self) -> StudyBars:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.update(self._steps, visible=False)
        self._bars.stop()

    def begin_study(self, total: int, finished: int) -> None:
        self._bars.update(self._runs, total=total, completed=finished)
        if finished:
            self.note(f"{finished} of {total} runs were finished before and are kept.")

    def begin_run(self, label: str) -> RunProgress:
        self._bars.reset(self._steps, description=label, total=None, unit="steps", latest="loading")
        return _Steps(self._bars, self._steps)

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self._bars.advance(self._runs)
        mark = Text("failed  ", style="red") if failed else Text("done    ", style="green")
        self._bars.console.print(mark + Text(f"{label}: {outcome}"))

    def note(self, text: str) -> None:
        self._bars.console.print(Text(text))


class _Steps:
    def __init__(self, bars: Progress, task: TaskID) -> None:
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
        self._bars.console.print(Text(text))
