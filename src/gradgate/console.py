"""Where gradgate prints: two consoles that let no control character of the user's data reach the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

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
    """Prints every string as it is: no markup, no emoji for ``:name:``, and control characters made visible."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does; rich's own control codes, which move a progress bar, are let through."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


# In a file or a pipe there is no edge to wrap at.
_UNWRAPPED = 160
console = PlainConsole(width=None if sys.stdout.isatty() else _UNWRAPPED)
errors = PlainConsole(stderr=True, width=None if sys.stderr.isatty() else _UNWRAPPED)
