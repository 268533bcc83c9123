"""The command line as a test types it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Said(NamedTuple):
    """How a command ended: its exit code, what it printed, and what it said beside."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]
