"""Represent rows as they were read, each with its place in the source, so that every error can name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradgate.errors import DataError, nearest

_LOOKED_AT = 100  # rows, for the parts of objects
_DEEPEST = 3  # levels of objects
MISSING = object()
"""The cell of a row that lacks a column which other rows have."""


@dataclass(frozen=True)
class SourceTable:
    """One split, as stored in its source.

    Args:
        source: the file's path, or the name of the hub's split.
        columns: column name -> cells, one per row; ``MISSING`` if a row lacks the column.
        lines: the line on which each row begins (from 1), or None if the source has no lines; rows are then counted
            from 1.
        item_lines: of rows that take several lines, the line of each of its items, such as a sentence's tokens.
        numbers: each row's number in the source (from 1), if only some of its rows are here.
        sources: each row's own source, if the rows come from several files.
        notes: what was done to read the source, such as another encoding than UTF-8.
    """

    source: str
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int] | None = None
    item_lines: Sequence[Sequence[int]] | None = None
    numbers: Sequence[int] | None = None
    sources: Sequence[str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int, item: int | None = None) -> str:
        """Return the place of row ``row`` (from 0), or of an item in it: ``train.tsv:12`` or ``train.json, row 12``."""
        source = self.source if self.sources is None else self.sources[row]
        if item is not None and self.item_lines is not None:
            return f"{source}:{self.item_lines[row][item]}"
        if self.lines is None:
            return f"{source}, row {self.number(row)}"
        return f"{source}:{self.lines[row]}"

    def number(self, row: int) -> int:
        """Return the row's number in the source, from 1."""
        return row + 1 if self.numbers is None else self.numbers[row]

    def column(self, name: str, parameter: str) -> Sequence[Any]:
        """Return the cells of one column.

        Raises:
            DataError: no such column, or a row without it. ``parameter`` is the one that names another.
        """
        if name not in self.columns:
            there = ", ".join(repr(column) for column in self.columns)
            near = nearest(name, self.columns)
            raise DataError(
                f"{self.source} has no column {name!r}; its columns are {there}. Name one with {parameter}"
                f"{f'.{near}' if near else ''}"
            )
        cells = self.columns[name]
        for row, cell in enumerate(cells):
            if cell is MISSING or cell is None:
                raise DataError(f"{self.place(row)} has no {name!r}; every row needs one")
        return cells


def unnamed(place: int) -> str:
    """Return the name of a column that the file does not name; ``place`` counts from 1."""
    return f"column {place}"


def as_text(cell: Any) -> str:
    """Return a label cell as text: outer white space is dropped, JSON's true is ``true``, a missing cell is empty."""
    if cell is None or cell is MISSING:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def check_characters(text: str, name: str, place: Callable[[], str]) -> None:
    """Refuse half a surrogate pair, which JSON can write as an escape, and which no tokenizer takes.

    Args:
        text: any text of a row.
        name: what the message calls it.
        place: returns the place of the row.

    Raises:
        DataError: naming the place.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place()}: {name} contains half a surrogate pair ({text!r:.80}); expected whole characters. Correct it"
        ) from error


def renamed(table: SourceTable, names: Mapping[str, str]) -> SourceTable:
    """Return the table with some of its columns renamed."""
    if not names:
        return table
    return replace(table, columns={names.get(name, name): cells for name, cells in table.columns.items()})


def select_rows(table: SourceTable, rows: Sequence[int]) -> SourceTable:
    """Return the table with these rows only, each with its place in the source."""
    return replace(
        table,
        columns={name: [cells[row] for row in rows] for name, cells in table.columns.items()},
        lines=None if table.lines is None else [table.lines[row] for row in rows],
        item_lines=None if table.item_lines is None else [table.item_lines[row] for row in rows],
        numbers=[table.number(row) for row in rows],
        sources=None if table.sources is None else [table.sources[row] for row in rows],
    )


def joined(source: str, tables: Sequence[SourceTable]) -> SourceTable:
    """Return the rows of several files as one table, each with its place in its own file."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    with_lines = all(table.lines is not None for table in tables)
    with_items = all(table.item_lines is not None for table in tables)
    return SourceTable(
        source,
        {name: [cell for table in tables for cell in _cells(table, name)] for name in names},
        [line for table in tables for line in table.lines or ()] if with_lines else None,
        [lines for table in tables for lines in table.item_lines or ()] if with_items else None,
        [table.number(row) for table in tables for row in range(len(table))],
        [table.source for table in tables for _ in range(len(table))],
        tuple(dict.fromkeys(note for table in tables for note in table.notes)),
    )


def _cells(table: SourceTable, name: str) -> Sequence[Any]:
    return table.columns.get(name, [MISSING] * len(table))


def noted(table: SourceTable, *notes: str) -> SourceTable:
    """Return the table with further notes."""
    return replace(table, notes=(*table.notes, *notes)) if notes else table


def at_path(cell: Any, path: Sequence[str]) -> Any:
    """Return what a nested cell holds under a path of names and numbers; ``MISSING`` if it has no such part."""
    for part in path:
        if isinstance(cell, Mapping):
            cell = cell.get(part, MISSING)
        elif isinstance(cell, list) and part.lstrip("-").isdecimal() and -len(cell) <= int(part) < len(cell):
            cell = cell[int(part)]
        else:
            return MISSING
    return cell


def with_paths(table: SourceTable, names: Iterable[str]) -> SourceTable:
    """Return the table with a column for each name such as ``input.text`` that leads into the cells of another."""
    found = {}
    for name in names:
        first, *path = name.split(".")
        if name in table.columns or not path or first not in table.columns:
            continue
        cells = [at_path(cell, path) for cell in table.columns[first]]
        if any(cell is not MISSING for cell in cells):
            found[name] = cells
    return replace(table, columns={**table.columns, **found}) if found else table


def paths_in(table: SourceTable) -> list[str]:
    """Return the paths of the single values in columns of objects, as the first rows have them."""
    return list(
        dict.fromkeys(path for name, cells in table.columns.items() for path in _paths(name, cells[:_LOOKED_AT]))
    )


def _paths(name: str, cells: Sequence[Any]) -> list[str]:
    objects = [cell for cell in cells if isinstance(cell, Mapping)]
    if not objects or name.count(".") >= _DEEPEST:
        return []
    found: list[str] = []
    for key in dict.fromkeys(str(key) for cell in objects for key in cell):
        inner = [cell.get(key) for cell in objects]
        found += _paths(f"{name}.{key}", inner) or [f"{name}.{key}"]
    return found
