"""Represent rows as they were read, each with its place in the source, so that every error can name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradgate.errors import DataError, nearest

MISSING = object()
"""The cell of a row that lacks a column which other rows have."""


@dataclass(frozen=True)
class Table:
    """One split as it is in its source.

    Args:
        source: the file's path, or the name of the hub's split.
        columns: column name -> cells, one per row; ``MISSING`` if a row lacks the column.
        lines: the line on which each row begins (from 1), or None if the source has no lines; rows are then counted
            from 1.
        item_lines: of rows that take several lines, the line of each of its items, such as a sentence's tokens.
        numbers: each row's number in the source (from 1), if only some of its rows are here.
    """

    source: str
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int] | None = None
    item_lines: Sequence[Sequence[int]] | None = None
    numbers: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int, item: int | None = None) -> str:
        """Return the place of row ``row`` (from 0), or of an item in it: ``train.tsv:12`` or ``train.json, row 12``."""
        if item is not None and self.item_lines is not None:
            return f"{self.source}:{self.item_lines[row][item]}"
        if self.lines is None:
            return f"{self.source}, row {self.number(row)}"
        return f"{self.source}:{self.lines[row]}"

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


def as_text(cell: Any) -> str:
    """Return a label cell as text: outer white space is dropped, JSON's true is ``true``, a missing cell is empty."""
    if cell is None or cell is MISSING:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def renamed(table: Table, names: Mapping[str, str]) -> Table:
    """Return the table with some of its columns renamed."""
    if not names:
        return table
    return replace(table, columns={names.get(name, name): cells for name, cells in table.columns.items()})
