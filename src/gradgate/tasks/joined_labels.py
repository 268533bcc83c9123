"""Recognise a column that has several labels in some of its rows, in lists or joined to one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.local_numbers import is_whole
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.types import SEPARATORS

_LONGEST = 40  # characters of a label
_PLURALS = ("labels", "tags", "genres", "topics", "categories", "classes", "emotions", "codes", "keywords")


def has_label_lists(table: SourceTable, label: str) -> bool:
    """Return True if the cells of a column are lists of labels, or texts that are lists.

    Raises:
        DataError: lists in a few rows only, with the place of the first.
    """
    cells = table.columns.get(label, ())
    rows = [row for row, cell in enumerate(cells) if _is_list(cell)]
    if rows and 2 * len(rows) < len(cells):
        raise DataError(
            f"{table.place(rows[0])}: {label!r} is a list ({cells[rows[0]]!r:.60}), but {len(cells) - len(rows):,} "
            f"of {len(cells):,} rows have one value. Write one label in each row, or a list in each for "
            f"kind='multi-label'"
        )
    return bool(rows)


def refuse_joined(table: SourceTable, label: str, words: Sequence[str]) -> None:
    """Ask for the kind if many values of a column look like several labels in one text, such as ``drama|comedy``.

    Joined values are at least two, some of their parts are values too, and there are not more parts than values. Commas
    also occur in names, so that parts must be fewer there, and in numbers: whole numbers with commas between them are
    labels if there are three or more in a value, or if the name of the column is a plural.

    Raises:
        DataError: such values.
    """
    values = set(words)
    for separator in SEPARATORS:
        joined = sorted(value for value in values if separator in value.strip(separator))
        if len(joined) < 2:
            continue
        parts = {part.strip() for value in values for part in value.split(separator)} - {""}
        if not _are_labels(label, parts, values, separator):
            continue
        raise DataError(
            f"Values of {label!r} in {table.source} look like several labels joined by {separator!r} "
            f"({', '.join(map(repr, joined[:3]))}, ...): {len(parts):,} labels in {len(values):,} values. Pass "
            "kind='multi-label', or kind='classification' if each value is one label"
        )


def _are_labels(label: str, parts: set[str], values: set[str], separator: str) -> bool:
    if separator == "," and all(map(is_whole, parts)):
        return label.lower().endswith(_PLURALS) or any(value.count(",") > 1 for value in values)
    fewer = len(parts) + (separator == ",") <= len(values)
    return fewer and bool(parts & values) and max(map(len, parts)) <= _LONGEST


def _is_list(cell: Any) -> bool:
    if isinstance(cell, str):
        return len(cell) > 1 and cell[0] == "[" and cell[-1] == "]"
    return isinstance(cell, list) and not any(isinstance(item, list | dict) for item in cell)
