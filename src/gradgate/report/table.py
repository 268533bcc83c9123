"""What a table of a study is made of. How it is written is :mod:`gradgate.report.export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gradgate.report.formats import ScoreFormat
from gradgate.statistics import summarize

Raw = str | int | float | None
Rank = Literal["", "best", "second"]

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


@dataclass(frozen=True)
class Column:
    """A column as shown: ``key`` names it in code, ``help`` says what it holds."""

    key: str
    title: str
    help: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Entry:
    """A cell as shown, the full-precision value that it sorts by, what may stand in a second line, and its rank."""

    text: str
    value: Raw = None
    detail: str = ""
    rank: Rank = ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.text} {self.detail}" if self.detail else self.text


@dataclass(frozen=True)
class Table:
    """One table twice: ``rows`` as people read it, ``records`` with full-precision numbers for the CSV file.

    ``best``: rows to be shown in bold; ``notes``: sentences that belong under it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    records: tuple[dict[str, Raw], ...]
    best: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def ranks(self) -> frozenset[str]:
        """The ranks that some entry has."""
        return frozenset(entry.rank for row in self.rows for entry in row if entry.rank)


def ranked(entries: Sequence[Entry], higher_is_better: bool) -> list[Entry]:
    """The same with the best value marked, and the second best of three or more; equal values share their rank."""
    sign = 1 if higher_is_better else -1
    values = [sign * entry.value for entry in entries if isinstance(entry.value, int | float)]
    places = sorted(set(values), reverse=True)
    if len(values) < 2 or len(places) < 2:
        return list(entries)
    named: dict[float, Rank] = {places[0]: "best"}
    if len(places) > 2:
        named[places[1]] = "second"
    return [
        replace(entry, rank=named.get(sign * entry.value, "")) if isinstance(entry.value, int | float) else entry
        for entry in entries
    ]


def significance(p: float | None) -> str:
    """Up to three stars for a p-value."""
    return "" if p is None else next((stars for level, stars in STARS if p < level), "")


def star_note(p_values: Sequence[float | None], test: str) -> tuple[str, ...]:
    """What the stars of a table mean, or that there are none; nothing where no test could be made."""
    if all(p is None for p in p_values):
        return ()
    if not any(significance(p) for p in p_values):
        return (f"No difference reaches p < 0.05 ({test}).",)
    return (f"{', '.join(f'{stars} p < {level:g}' for level, stars in reversed(STARS))}: {test}.",)


def spread_entry(values: list[float], metric: ScoreFormat) -> Entry:
    """Mean and standard deviation of some values of a metric."""
    summary = summarize(values)
    return Entry(metric.with_spread(summary.mean, summary.sd), summary.mean)


def spread_record(values: list[float]) -> dict[str, Raw]:
    """The same for the CSV file, with the number of values and the t interval of their mean."""
    summary = summarize(values)
    low, high = summary.interval or (None, None)
    return {"n": summary.n, "mean": summary.mean, "sd": summary.sd, "ci95_low": low, "ci95_high": high}
