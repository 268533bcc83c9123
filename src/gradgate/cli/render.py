"""How the commands print: as JSON for scripts, as a line, as an error."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

from rich.highlighter import JSONHighlighter
from rich.text import Text

from gradgate.console import console, errors
from gradgate.printable import UNSAFE, visible

__all__ = [
    "console",
    "errors",
    "open_closed_streams",
    "print_error",
    "print_json",
    "print_json_line",
    "print_line",
    "survive_any_encoding",
    "visible",
]


def print_json(value: Any) -> None:
    """Print a result for scripts; characters that are not safe on a terminal are escaped, as JSON allows."""
    text = _json_text(value, indent=2)
    if console.is_terminal:
        console.print(JSONHighlighter()(Text(text)), soft_wrap=True)
    else:
        console.file.write(f"{text}\n")


def print_json_line(value: Any) -> None:
    """Print a record as one line of JSON lines, escaped as by :func:`print_json`."""
    print_line(_json_text(value))


def _json_text(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_line(text: str) -> None:
    """Print text without wrapping it."""
    console.print(text, soft_wrap=True)


def print_error(text: str) -> None:
    """Print what is wrong to standard error."""
    errors.print(text, style="red", soft_wrap=True)


def open_closed_streams() -> None:
    """Let standard streams that are closed, as by ``>&-``, lead nowhere.

    Else the first file that is opened takes the place of one, and what is printed would be written into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def survive_any_encoding() -> None:
    """Let standard output and error escape what their encoding lacks, where python would end with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
