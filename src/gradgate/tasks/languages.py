"""The language of a split."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec


def language_of(spec: TaskSpec, split: str) -> str:
    """What stands after the last dot of the split's name (``de`` in ``test.de``), else ``en``."""
    return split.rpartition(".")[2] if "." in split else "en"
