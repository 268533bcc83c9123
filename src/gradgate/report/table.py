"""Build the tables of a study. :mod:`gradgate.report.export` writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from gradgate.report.formats import NONE, ScoreFormat
from gradgate.statistics import Summary

Raw = str | int | float | None
Rank = Literal["", "best", "second"]
Row = TypeVar("Row")

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


@dataclass(frozen=True)
class IntervalBar:
    """An interval around a mean, drawn in a cell; all three are places between 0, left, and 1, right."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Link:
    """A link below the text of a cell.

    Attributes:
        text: a word.
        address: relative to the page, quoted.
        help: what it leads to.
    """

    text: str
    address: str
    help: str = ""


@dataclass(frozen=True)
class Entry:
    """A shown value.

    Attributes:
        text: the first line.
        value: the full-precision value that the entry sorts by.
        detail: a second line.
        rank: among the entries of its column.
        heat: how strongly its background is coloured, from 0 to 1, or towards a second colour from 0 to -1; None for
            none.
        bar: an interval to draw on the page.
        links: to files, on the page.
    """

    text: str
    value: Raw = None
    detail: str = ""
    rank: Rank = ""
    heat: float | None = None
    bar: IntervalBar | None = None
    links: tuple[Link, ...] = ()

    @property
    def line(self) -> str:
        """Text and detail in one line."""
        return f"{self.text} {self.detail}" if self.detail else self.text


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: how it is shown and what is exported.

    Attributes:
        key: its name in code.
        title: its heading.
        help: what it contains.
        numeric: whether it is aligned to the right.
        show: makes the entry of a row; a text stands for an entry that sorts by ``raw``. None for a column that is
            exported only.
        raw: returns the full-precision value of a row. None for a column that is shown only.
        field: its name in exports, ``key`` by default.
    """

    key: str
    title: str = ""
    help: str = ""
    numeric: bool = True
    show: Callable[[Row], Entry | str] | None = None
    raw: Callable[[Row], Raw] | None = None
    field: str = ""

    def entry(self, row: Row) -> Entry:
        """Return what a row shows here."""
        assert self.show is not None, "called for columns that are shown"
        shown = self.show(row)
        return shown if isinstance(shown, Entry) else Entry(shown, self.raw(row) if self.raw else None)


@dataclass(frozen=True)
class Table:
    """A table as it is shown, and its records with full-precision numbers for exports.

    Attributes:
        name: of its files.
        title: a heading.
        columns: those that are shown.
        rows: one entry per column.
        records: of the CSV file, which may have other rows.
        best: the numbers of the rows that are shown in bold.
        notes: sentences below the table.
    """

    name: str
    title: str
    columns: tuple[Column[Any], ...]
    rows: tuple[tuple[Entry, ...], ...]
    records: tuple[dict[str, Raw], ...]
    best: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        rows: Sequence[Row],
        columns: Iterable[Column[Row]],
        *,
        hidden: Collection[str] = (),
        records: tuple[dict[str, Raw], ...] | None = None,
        best: Iterable[int] = (),
        notes: Sequence[str] = (),
    ) -> Table:
        """Build a table with one row per item of ``rows``.

        Args:
            columns: those with ``show`` are shown, those with ``raw`` are exported, both in this order.
            hidden: keys of columns that are not shown this time.
            records: the export of a table whose file has other rows, see :func:`records_of`.
        """
        every = tuple(columns)
        shown = tuple(column for column in every if column.show is not None and column.key not in hidden)
        entries = tuple(tuple(column.entry(row) for column in shown) for row in rows)
        exported = records_of(rows, every) if records is None else records
        return cls(name, title, shown, entries, exported, frozenset(best), tuple(notes))

    @property
    def ranks(self) -> frozenset[str]:
        """The ranks that some entry has."""
        return frozenset(entry.rank for row in self.rows for entry in row if entry.rank)

    def place(self, key: str) -> int:
        """Return the place of a shown column."""
        return next(place for place, column in enumerate(self.columns) if column.key == key)

    def ranked(self, keys: Iterable[str], higher_is_better: bool) -> Table:
        """Return the table with the best entries of some columns marked, see :func:`ranked`."""
        by_column = [list(entries) for entries in zip(*self.rows, strict=True)]
        for key in keys:
            by_column[self.place(key)] = ranked(by_column[self.place(key)], higher_is_better)
        return replace(self, rows=tuple(zip(*by_column, strict=True)))

    def with_order(self, order: Sequence[int]) -> Table:
        """Return the table with its shown rows in another order; records and files keep theirs."""
        return replace(
            self,
            rows=tuple(self.rows[place] for place in order),
            best=frozenset(number for number, place in enumerate(order) if place in self.best),
        )


def records_of(rows: Iterable[Row], columns: Iterable[Column[Row]]) -> tuple[dict[str, Raw], ...]:
    """Return one record per row, with the columns that are exported."""
    exported = [(column.field or column.key, column.raw) for column in columns if column.raw is not None]
    return tuple({field: raw(row) for field, raw in exported} for row in rows)


def text_column(key: str, title: str, about: str = "", *, of: Callable[[Row], str], field: str = "") -> Column[Row]:
    """Return a column of names, shown and exported alike."""
    return Column(key, title, about, numeric=False, show=of, raw=of, field=field)


def step_column(about: str = "optimizer steps") -> Column[int]:
    """Return the first column of a table with one row per step."""
    return Column("step", "Step", about, numeric=False, show=lambda step: Entry(str(step), step))


def fields_of(of: Callable[[Row], Mapping[str, Raw]], names: Iterable[str]) -> tuple[Column[Row], ...]:
    """Return columns that are exported only: values by name, from one function."""

    def column(name: str) -> Column[Row]:
        return Column(name, raw=lambda row: of(row)[name])

    return tuple(map(column, names))


def ranked(entries: Sequence[Entry], higher_is_better: bool) -> list[Entry]:
    """Mark the best value, and the second best of three or more; equal values share their rank."""
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
    """Return up to three stars for a p-value."""
    return "" if p is None else next((stars for level, stars in STARS if p < level), "")


def star_note(p_values: Sequence[float | None], test: str) -> tuple[str, ...]:
    """Explain the stars of a table, or say that there are none; return nothing if no test was possible."""
    if all(p is None for p in p_values):
        return ()
    if not any(significance(p) for p in p_values):
        return (f"No difference reaches p < 0.05 ({test}).",)
    return (f"{', '.join(f'{stars} p < {level:g}' for level, stars in reversed(STARS))}: {test}.",)


def spread_entry(summary: Summary | None, metric: ScoreFormat) -> Entry:
    """Show a mean and its standard deviation; a dash without a value."""
    if summary is None or summary.mean is None:
        return Entry(NONE)
    return Entry(metric.with_spread(summary.mean, summary.sd), summary.mean)


def spread_fields(of: Callable[[Row], Summary]) -> tuple[Column[Row], ...]:
    """Return the exported columns of a summary: the number of values, mean, standard deviation and t interval."""
    return (
        Column("n", raw=lambda row: of(row).n),
        Column("mean", raw=lambda row: of(row).mean),
        Column("sd", raw=lambda row: of(row).sd),
        *interval_fields("ci95", lambda row: of(row).interval),
    )


def interval_fields(prefix: str, of: Callable[[Row], tuple[float, float] | None]) -> tuple[Column[Row], ...]:
    """Return the exported columns of an interval: its lower and its upper end, both empty without one."""
    return (
        Column(f"{prefix}_low", raw=lambda row: (of(row) or (None, None))[0]),
        Column(f"{prefix}_high", raw=lambda row: (of(row) or (None, None))[1]),
    )
