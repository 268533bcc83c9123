"""Where the commands print."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

# In a file or a pipe there is no edge to wrap at.
console = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """A result for scripts."""
    console.print_json(json.dumps(value))


def print_line(text: str) -> None:
    """A line as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
