"""Print to two consoles that truncate no names or numbers and pass no control characters of user data."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table

from gradgate.printable import visible


class PlainConsole(Console):
    """A console that prints strings verbatim: no markup, no emoji for ``:name:``, and visible control characters.

    No line is truncated: the terminal wraps long ones. In a file or a pipe no line ends in blanks.

    Attributes:
        worded: returns a message as the user should read it; a command writes parameters as its flags.
    """

    worded: Callable[[str], str]

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        self.worded = str

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as the base class does, without its truncation and padding."""
        options.setdefault("crop", False)
        if self.is_terminal or self.is_jupyter:
            super().print(*objects, **options)
            return
        with self.capture() as printed:
            super().print(*objects, **options)
        try:
            self.file.write(_TRAILING_BLANKS.sub("", printed.get()))
            self.file.flush()
        except BrokenPipeError:  # as in rich: the reader has closed the pipe, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
            raise SystemExit(1) from None

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does; pass rich's own control codes, which move a progress bar."""
        if isinstance(renderable, Table) and renderable.show_header:  # a progress bar is a table without one
            _keep_whole(renderable, self, (options or self.options).max_width)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _keep_whole(table: Table, console: Console, width: int) -> None:
    """Let a narrow terminal break long names over lines, but never numbers, instead of truncating them.

    Rich itself narrows all columns equally, even below what they need, and truncates the rest.
    """
    wide = console.options.update(width=_UNLIMITED)
    needs = [_needs(column, console, wide) for column in table.columns]
    room = width - 3 * len(needs) - 1
    fitting = (name for name in _NAME_WIDTHS if sum(max(number, min(word, name)) for number, word, _ in needs) <= room)
    name_width = next(fitting, _NAME_WIDTHS[0])  # if no width fits, the terminal wraps lines
    least = [max(number, min(word, name_width)) for number, word, _ in needs]
    widths = _shared(least, [most for *_, most in needs], room)
    for column, narrow, wide_enough in zip(table.columns, least, widths, strict=True):
        column.min_width, column.max_width, column.overflow = narrow, wide_enough, "fold"


def _needs(column: Column, console: Console, wide: ConsoleOptions) -> tuple[int, int, int]:
    """Return the widths that a column needs for its longest number, its longest word, and its longest cell."""
    cells = [Measurement.get(console, wide, cell) for cell in column.cells]
    heading = Measurement.get(console, wide, column.header)
    is_whole = column.no_wrap or column.justify == "right"
    numbers = max((cell.maximum for cell in cells), default=1) if is_whole else 1
    every = [heading, *cells]
    number = max(numbers, column.min_width or 1)
    return number, max(each.minimum for each in every), max(number, *(each.maximum for each in every))


def _shared(least: list[int], most: list[int], room: int) -> list[int]:
    """Share a width among columns: each gets its least; the rest is split equally, up to each column's most."""
    widths = dict(enumerate(least))
    spare = max(0, room - sum(least))
    by_wish = sorted(widths, key=lambda column: most[column] - least[column])
    for place, column in enumerate(by_wish):
        more = min(most[column] - least[column], spare // (len(by_wish) - place))
        widths[column] += more
        spare -= more
    return [widths[column] for column in range(len(least))]


def _edge(stream: TextIO | None) -> dict[str, int]:
    """Return the size of the page, if rich cannot find it."""
    asked = os.environ.get("COLUMNS", "")
    width = max(_NARROWEST, int(asked)) if asked.isdecimal() and int(asked) else None
    if stream is None or not stream.isatty():  # None where the standard stream is closed
        return {"width": width or _UNWRAPPED}
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return {"width": width, "height": _DUMB_HEIGHT} if is_dumb and width else {}


_TRAILING_BLANKS = re.compile("[ \t]+$", re.MULTILINE)
_UNLIMITED = 10_000
_NAME_WIDTHS = (20, 12, 8)  # longer names break, at the first of these at which a table fits the terminal
_NARROWEST = 20
_DUMB_HEIGHT = 25
# A file or a pipe has no edge at which to wrap.
_UNWRAPPED = 160
console = PlainConsole(**_edge(sys.stdout))
errors = PlainConsole(stderr=True, **_edge(sys.stderr))
