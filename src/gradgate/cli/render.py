"""Where the commands print: two consoles that let no control character of the user's data reach the terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.text import Text

# Escape sequences begin with a character of C0 or C1; the others reorder or hide text, or cannot be encoded.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "␡"


def visible(text: str) -> str:
    """The text with each control character as a picture, such as ``␛`` for ESC; tabs and line ends stay."""
    return _UNSAFE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"\\u{code:04x}"


class PlainConsole(Console):
    """Prints every string as it is: no markup, no emoji for ``:name:``, and control characters made visible."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does; rich's own control codes, which move a progress bar, are let through."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


# In a file or a pipe there is no edge to wrap at.
console = PlainConsole(width=None if sys.stdout.isatty() else 160)
errors = PlainConsole(stderr=True)


def print_json(value: Any) -> None:
    """Print a result for scripts; characters that are not safe on a terminal are escaped, as JSON allows."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if console.is_terminal:
        console.print(JSONHighlighter()(Text(text)), soft_wrap=True)
    else:
        console.file.write(f"{text}\n")


def print_line(text: str) -> None:
    """Print text without wrapping it."""
    console.print(text, soft_wrap=True)


def print_error(text: str) -> None:
    """Print what is wrong to standard error."""
    errors.print(text, style="red", soft_wrap=True)


def survive_any_encoding() -> None:
    """Let standard output and error escape what their encoding lacks, where python would end with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
