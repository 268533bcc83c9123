"""Define the budget of a comparison: a share of its grid's steps, a number of steps, or a time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradgate.errors import UsageError

_TIME = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Budget:
    """A budget as it was asked for: one of three values.

    Attributes:
        share: of the grid's optimizer steps, above 0 and up to 1, which is every run.
        steps: optimizer steps of all runs together.
        seconds: by the clock. The pace of the first runs converts them into steps, once.

    Raises:
        UsageError: for none or several of them, or a value out of range.
    """

    share: float | None = None
    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        passed = [value for value in (self.share, self.steps, self.seconds) if value is not None]
        if len(passed) != 1:
            raise UsageError(
                f"budget=, budget_steps= and budget_time= each set the budget; expected one, got {len(passed)}."
            )
        if self.share is not None and not 0 < self.share <= 1:
            raise UsageError(
                f"budget={self.share:g}: expected a share of the grid's steps above 0 and up to 1, such as 0.1."
            )
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"budget_steps={self.steps}: expected the optimizer steps of all runs, 1 or more.")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise UsageError(f"budget_time= of {self.seconds:g} seconds: expected more than 0, as in 30m or 1h30m.")

    def steps_of(self, total: int, pace: float | None) -> int:
        """Return the optimizer steps of a grid of ``total`` steps; a time needs ``pace``, the seconds per step."""
        if self.share is not None:
            return int(self.share * total * (1 + 1e-12))  # 0.1 of 30 is 3
        if self.steps is not None:
            return min(self.steps, total)
        assert self.seconds is not None
        assert pace is not None, "a time was measured before it is spent"
        return min(int(self.seconds / pace), total) if pace else total


def parse_budget(share: float | None, steps: int | None, time: str | None) -> Budget | None:
    """Return the budget of a command line; None without one.

    Args:
        share: of the grid.
        steps: of all runs.
        time: as ``30m``, ``1h30m`` or ``90s``.

    Raises:
        UsageError: for several of them, or an invalid one.
    """
    if share is None and steps is None and time is None:
        return None
    return Budget(share, steps, None if time is None else _seconds(time))


def _seconds(text: str) -> float:
    found = _TIME.fullmatch(text.strip())
    numbers = [number or "" for number in found.groups()] if found is not None else []
    if not any(numbers) or max(map(len, numbers)) > _MOST_DIGITS:
        raise UsageError(f"budget_time={text!r}: expected hours, minutes and seconds, as in 30m, 1h30m or 90s.")
    hours, minutes, seconds = (int(number or 0) for number in numbers)
    return float(3600 * hours + 60 * minutes + seconds)
