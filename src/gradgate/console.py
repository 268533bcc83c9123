"""Where gradgate prints: two consoles that cut no name or number, and let no control character of the user's data
reach the terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table

# Escape sequences begin with a character of C0 or C1; the others reorder or hide text, or cannot be encoded.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "␡"


def visible(text: str) -> str:
    """The text with each control character as a picture, such as ``␛`` for ESC; tabs and line ends stay."""
    return UNSAFE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"\\u{code:04x}"


class PlainConsole(Console):
    """Prints every string as it is: no markup, no emoji for ``:name:``, and control characters made visible.

    No line is cut: what is too long for the terminal, the terminal wraps. In a file or a pipe no line ends in blanks.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as the base class does, without its cutting and padding."""
        options.setdefault("crop", False)
        if self.is_terminal or self.is_jupyter:
            super().print(*objects, **options)
            return
        with self.capture() as printed:
            super().print(*objects, **options)
        try:
            self.file.write(_TRAILING_BLANKS.sub("", printed.get()))
            self.file.flush()
        except BrokenPipeError:  # as rich does it: the reader has seen enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
            raise SystemExit(1) from None

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does; rich's own control codes, which move a progress bar, are let through."""
        if isinstance(renderable, Table) and renderable.show_header:  # a progress bar is a table without one
            _keep_whole(renderable, self, (options or self.options).max_width)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _keep_whole(table: Table, console: Console, width: int) -> None:
    """Let a narrow terminal break long names over lines, and no number at all, instead of cutting them short.

    Rich itself narrows all columns alike, also below what they need, and cuts what is then too long.
    """
    wide = console.options.update(width=_UNLIMITED)
    needs = [_needs(column, console, wide) for column in table.columns]
    room = width - 3 * len(needs) - 1
    fitting = (name for name in _NAME_WIDTHS if sum(max(own, min(word, name)) for own, word, _ in needs) <= room)
    name_width = next(fitting, _NAME_WIDTHS[0])  # where nothing fits, the terminal wraps whole lines
    least = [max(own, min(word, name_width)) for own, word, _ in needs]
    given = _shared(least, [most for *_, most in needs], room)
    for column, narrow, own in zip(table.columns, least, given, strict=True):
        column.min_width, column.max_width, column.overflow = narrow, own, "fold"


def _needs(column: Column, console: Console, wide: ConsoleOptions) -> tuple[int, int, int]:
    """The width that a column needs for its longest number, for its longest word, and for all on one line."""
    cells = [Measurement.get(console, wide, cell) for cell in column.cells]
    heading = Measurement.get(console, wide, column.header)
    is_whole = column.no_wrap or column.justify == "right"
    numbers = max((cell.maximum for cell in cells), default=1) if is_whole else 1
    every = [heading, *cells]
    own = max(numbers, column.min_width or 1)
    return own, max(each.minimum for each in every), max(own, *(each.maximum for each in every))


def _shared(least: list[int], most: list[int], room: int) -> list[int]:
    """The widths of columns that share a room: each has its least; what is left goes to all alike, up to its most."""
    given = dict(enumerate(least))
    spare = max(0, room - sum(least))
    by_wish = sorted(given, key=lambda column: most[column] - least[column])
    for place, column in enumerate(by_wish):
        more = min(most[column] - least[column], spare // (len(by_wish) - place))
        given[column] += more
        spare -= more
    return [given[column] for column in range(len(least))]


def _edge(stream: TextIO) -> dict[str, int]:
    """The size of the page, where rich does not find it."""
    asked = os.environ.get("COLUMNS", "")
    width = max(_NARROWEST, int(asked)) if asked.isdecimal() and int(asked) else None
    if not stream.isatty():
        return {"width": width or _UNWRAPPED}
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return {"width": width, "height": _DUMB_HEIGHT} if is_dumb and width else {}


_TRAILING_BLANKS = re.compile("[ \t]+$", re.MULTILINE)
_UNLIMITED = 10_000
_NAME_WIDTHS = (20, 12, 8)  # longer names break, at the first of these at which a table fits the terminal
_NARROWEST = 20
_DUMB_HEIGHT = 25
# In a file or a pipe there is no edge to wrap at.
_UNWRAPPED = 160
console = PlainConsole(**_edge(sys.stdout))
errors = PlainConsole(stderr=True, **_edge(sys.stderr))
