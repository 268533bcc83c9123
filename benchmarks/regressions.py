"""Compare the ratios of a benchmark with those in RESULTS.md, and say which of them are worse.

Ratios within one process are compared, such as ``1.228x``, since times depend on the machine. A benchmark whose lines
also time other libraries names these in ``OTHERS``: they do not count. One that divides by its own time, so that a
smaller ratio is worse, sets ``DIVIDES_BY_OURS``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

TOLERANCE = 0.1
"""Share by which a ratio may be worse: repetitions on one machine differ by less."""

_RATIO = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)x(?!\w)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
Key = tuple[str, int, int]


@dataclass(frozen=True)
class Regression:
    """A ratio that is worse than it was.

    Attributes:
        line: that has it now.
        before: what it was.
        now: what it is.
    """

    line: str
    before: float
    now: float

    def __str__(self) -> str:
        return f"regressed from {self.before:g}x to {self.now:g}x: {' '.join(self.line.split())}"


def regressions(benchmark: ModuleType, before: Sequence[str], now: Sequence[str]) -> list[Regression]:
    """Return the ratios of a benchmark that are worse by more than :data:`TOLERANCE`.

    Args:
        benchmark: its module.
        before: its lines in RESULTS.md.
        now: its lines of this run. Lines of only one of the two are not compared.
    """
    others: tuple[str, ...] = getattr(benchmark, "OTHERS", ())
    falls = getattr(benchmark, "DIVIDES_BY_OURS", False)
    known = {key: value for key, value, _ in _ratios(before)}
    found = []
    for key, value, line in _ratios(now):
        old = known.get(key)
        if old and value and not line.strip().startswith(others):
            change = old / value if falls else value / old
            found += [Regression(line, old, value)] if change > 1.0 + TOLERANCE else []
    return found


def _ratios(lines: Sequence[str]) -> Iterator[tuple[Key, float, str]]:
    """Yield each ratio with its line, and a key that is the same in another run."""
    seen: Counter[str] = Counter()
    for line in lines:
        label = " ".join(_NUMBER.sub("#", line).split())
        for place, match in enumerate(_RATIO.finditer(line)):
            yield (label, seen[label], place), float(match[1]), line
        seen[label] += 1
