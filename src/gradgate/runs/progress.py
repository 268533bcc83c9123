"""Show the progress of a run: its steps, losses and scores."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from gradgate.console import PlainConsole


class RunProgress(Protocol):
    """Receives the steps and dev scores of a run."""

    def begin(self, total: int, done: int) -> None:
        """Start with ``done`` of ``total`` optimizer steps."""

    def advance(self, step: int, loss: float | None) -> None:
        """Show that ``step`` optimizer steps are done; ``loss`` is the latest known."""

    def scored(self, split: str, metric: str, score: float) -> None:
        """Show the score of a split."""

    def note(self, text: str) -> None:
        """Show a message."""


def about(seconds: float) -> str:
    """Return an expected duration as text: ``about 3 min``."""
    if seconds < 60:
        return "less than a minute"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes / 60:.1f} h"


class Silent:
    """Shows nothing."""

    def begin(self, total: int, done: int) -> None: ...

    def advance(self, step: int, loss: float | None) -> None: ...

    def scored(self, split: str, metric: str, score: float) -> None: ...

    def note(self, text: str) -> None: ...


_WIDE = 120


class _Yielding(TextColumn):
    """Text that a narrow terminal cuts short, so that the counts next to it stay whole."""

    def __init__(self, text: str) -> None:
        super().__init__(text, markup=False, table_column=Column())  # rich narrows columns that may wrap first

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def bars(console: Console) -> Progress:
    """Return bars with the action (``description``), the counts in a ``unit``, and the ``latest`` values."""
    return Progress(
        _Yielding("{task.description}"),
        BarColumn(40 if console.width >= _WIDE else 12, table_column=Column()),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[unit]}"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        _Yielding("{task.fields[latest]}"),
        console=console,
    )


class Bar:
    """A progress bar on a terminal, with the latest loss and dev score. Use as a context manager.

    Args:
        console: where it is drawn.
        action, unit: what is done, and what is counted.
    """

    def __init__(self, console: PlainConsole, action: str = "training", unit: str = "steps") -> None:
        self._action = action
        self._console = console
        self._bar = bars(console)
        self._task = self._bar.add_task("loading", total=None, unit=unit, latest="")
        self._score = ""
        self._begun = False

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        failed = any(error) and not self._bar.tasks[0].completed
        if failed or not self._begun:  # nothing was done: the message that replaces it stands alone
            self._bar.update(self._task, visible=False)
        self._bar.stop()

    def begin(self, total: int, done: int) -> None:
        self._begun = True
        self._bar.update(self._task, description=self._action, total=total, completed=done)

    def advance(self, step: int, loss: float | None) -> None:
        latest = "  ".join(filter(None, ["" if loss is None else f"loss {loss:.3f}", self._score]))
        self._bar.update(self._task, completed=step, latest=latest)

    def scored(self, split: str, metric: str, score: float) -> None:
        self._score = f"{split} {metric} {score:.4f}"

    def note(self, text: str) -> None:
        self._console.print(self._console.worded(text), soft_wrap=True)
