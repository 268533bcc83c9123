"""Hold one measured value against its goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Goal:
    """A limit for a value.

    Attributes:
        kind: how the value is compared; ``within`` takes values from ``1 - limit`` to ``1 + limit``.
        limit: in the unit of the value; a share for ``within``.
        always: also judged in a dry run. Times and memory of tiny models on a CPU say nothing of a GPU, equal bits do.
    """

    kind: Literal["at least", "at most", "within", "exactly"]
    limit: float
    always: bool = False

    def __str__(self) -> str:
        return f"within {self.limit:.0%} of 1" if self.kind == "within" else f"{self.kind} {self.limit:g}"

    def met(self, value: float) -> bool:
        """Return True if a value reaches the goal."""
        if self.kind == "within":
            return abs(value - 1.0) <= self.limit
        if self.kind == "exactly":
            return value == self.limit
        return value >= self.limit if self.kind == "at least" else value <= self.limit


NONE_DIFFERS = Goal("exactly", 0, always=True)


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Attributes:
        name: what was measured, unique within the part.
        value: None if it could not be measured; ``note`` then says why.
        unit: of the value.
        goal: None if there is none.
        note: what a reader of the page must know of this value.
    """

    name: str
    value: float | None
    unit: str
    goal: Goal | None = None
    note: str = ""

    def row(self, part: str, *, dry: bool) -> dict[str, Any]:
        """Return the entry of ``gpu.json``, and the note.

        ``met`` is None without a goal or a value, and in a dry run for all goals that it cannot judge.
        """
        judged = self.goal is not None and self.value is not None and (self.goal.always or not dry)
        return {
            "part": f"{part}: {self.name}",
            "value": self.value,
            "unit": self.unit,
            "goal": None if self.goal is None else str(self.goal),
            "met": self.goal.met(self.value) if judged and self.goal is not None and self.value is not None else None,
            "note": self.note,
        }
