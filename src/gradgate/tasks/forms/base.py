"""Describe a form of rows: the columns that people give their data, and how they become those of a kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.types import KindName
from gradgate.tasks.written import parsed

LOOKED_AT = 50
"""Number of first rows whose cells tell forms apart."""

Cells = Sequence[Any]


@dataclass(frozen=True)
class Form:
    """A form of rows that is recognised by its columns.

    Args:
        name: the word in a task's ``form``.
        kind: of the tasks that it is for; None if the form is named, but not read.
        inputs: columns that must be there; ``a|b`` is one of two names. Case does not matter.
        outputs: further columns that must be there in rows to train on.
        optional: further columns that are read.
        further: returns those that are read and have no fixed names.
        meaning: how rows are read, or what to do if they are not, for people.
        example: a row.
        read: returns the table with the columns of its kind.
        when: whether the cells of the columns are those of the form.
        options: returns further entries of the task that follow from the table, such as ``choices``.
        weak: whether a column that is named like a label means that the rows have another form.
    """

    name: str
    kind: KindName | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    meaning: str
    example: Mapping[str, Any]
    read: Callable[[SourceTable], SourceTable] = field(default=lambda table: table)
    when: Callable[[SourceTable], bool] = field(default=lambda table: True)
    options: Callable[[SourceTable], dict[str, Any]] = field(default=lambda table: {})
    optional: tuple[str, ...] = ()
    further: Callable[[SourceTable], list[str]] = field(default=lambda table: [])
    weak: bool = False

    def fits(self, table: SourceTable, *, labelled: bool = True) -> bool:
        """Return True if the table has the columns of the form, those of the outputs too if ``labelled``."""
        needed = (*self.inputs, *self.outputs) if labelled else self.inputs
        return len(table) > 0 and all(found_name(table, name) for name in needed) and self.when(table)

    def parts_of(self, table: SourceTable) -> dict[str, str]:
        """Return the columns of a table that the form reads -> ``input`` or ``output``."""
        parts = [*((name, "input") for name in (*self.inputs, *self.optional)), *((n, "output") for n in self.outputs)]
        named = {found: part for name, part in parts if (found := found_name(table, name)) is not None}
        return {**dict.fromkeys(self.further(table), "input"), **named}

    @property
    def recognised(self) -> str:
        """The columns that show the form, for people."""
        return ", ".join(" or ".join(f"`{part}`" for part in name.split("|")) for name in (*self.inputs, *self.outputs))


def found_name(table: SourceTable, name: str) -> str | None:
    """Return the table's column of one of the names in ``a|b``, whatever the case of its letters; None without."""
    there = {column.lower(): column for column in table.columns}
    return next((there[part] for part in name.lower().split("|") if part in there), None)


def cells_of(table: SourceTable, name: str) -> Cells:
    """Return the cells of one of the columns in ``a|b``; ``MISSING`` in each row if the table has none."""
    found = found_name(table, name)
    return [MISSING] * len(table) if found is None else table.columns[found]


def with_columns(table: SourceTable, columns: Mapping[str, Cells], drop: Sequence[str] = ()) -> SourceTable:
    """Return the table with further columns, without those of some names."""
    gone = {found_name(table, name) for name in drop}
    kept = {name: cells for name, cells in table.columns.items() if name not in gone}
    return replace(table, columns={**kept, **columns})


def first_cells(table: SourceTable, name: str) -> list[Any]:
    """Return the cells of the first rows that have one, as values if they are JSON or a list of Python in text."""
    there = (cell for cell in cells_of(table, name)[:LOOKED_AT] if is_there(cell))
    return [parsed(cell) for cell in there]


def is_there(cell: Any) -> bool:
    """Return True unless a cell is absent, null or an empty text."""
    return cell is not MISSING and cell is not None and cell != ""


def are_lists(cells: Cells, of: type | tuple[type, ...] = object) -> bool:
    """Return True if there are cells, and all are lists of items of a type."""
    return bool(cells) and all(isinstance(cell, list) and all(isinstance(item, of) for item in cell) for cell in cells)


def are_texts(cells: Cells) -> bool:
    """Return True if there are cells, and all are text."""
    return bool(cells) and all(isinstance(cell, str) for cell in cells)


def mostly_different(cells: Cells) -> bool:
    """Return True if more than half of the texts occur once, as no class labels do."""
    return are_texts(cells) and 2 * len(set(cells)) > len(cells)
