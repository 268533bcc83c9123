"""Read numbers in local writing, such as decimal commas; name those that are ambiguous or have units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable, noted

_COMMA = re.compile(r"[+-]?\d+,\d+")
_ARABIC = str.maketrans("٫٬", ".,")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([,.' \u00a0\u202f])\d{3}(\1\d{3})*(?:([,.])\d+)?")
_POINT = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_UNCLEAR = (
    "where the separator may be for thousands or decimals. Write numbers with a decimal point and no thousands "
    "separator, as in 1234.5; class names need kind='classification'"
)
_UNIT = re.compile(r"(?:[$€£¥]|USD|EUR)?\s*[+-]?\d[\d.,' \u00a0\u202f]*\s*(?:%|‰|[$€£¥]|USD|EUR)?")
_PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def is_whole(word: str) -> bool:
    """Return True for a whole number, with or without a sign."""
    return word.lstrip("+-").isdecimal()


def is_local(word: str) -> bool:
    """Return True for a number that is not written as ``1234.5``: ``3,5``, ``1.234,5``, ``1 234``, ``50 %``, ``$5``."""
    written, word = word.strip(), word.strip().translate(_ARABIC)
    if not word or _PLAIN.fullmatch(word):
        return written != word
    return bool(_COMMA.fullmatch(word) or _THOUSANDS.fullmatch(word) or _UNIT.fullmatch(word))


def are_local(words: Sequence[str]) -> bool:
    """Return True if most words are numbers, and some of these are in local writing."""
    counts = Counter(words)
    local = sum(count for word, count in counts.items() if is_local(word))
    plain = sum(count for word, count in counts.items() if _PLAIN.fullmatch(word.strip()))
    return local > 0 and 2 * (local + plain) > len(words)


def in_points(table: SourceTable, column: str) -> SourceTable:
    """Return the table with decimal commas of a column of scores as points, and a note on it.

    Raises:
        DataError: a number in local writing that means one of two things, or has a unit, with the place of the first.
    """
    cells = table.columns.get(column, ())
    local = [row for row, cell in enumerate(cells) if isinstance(cell, str) and is_local(cell)]
    if not local:
        return table
    decimal = any(_is_decimal(str(cells[row])) for row in local)
    if decimal:
        _refuse_points(table, column)
    changed: list[Any] = list(cells)
    for row in local:
        word = str(cells[row]).strip().translate(_ARABIC)
        point = _with_point(word, decimal)
        if point is None:
            raise DataError(f"{table.place(row)}: {column!r} is {word!r}, {explain(word)}")
        changed[row] = point
    found = replace(table, columns={**table.columns, column: changed})
    return noted(found, f"decimal commas in {column!r} are read as points: {str(cells[local[0]]).strip()} is "
                 f"{changed[local[0]]}")  # fmt: skip


def _refuse_points(table: SourceTable, column: str) -> None:
    """Raise DataError for ``1.234`` among decimal commas, whose point may part thousands."""
    for row, cell in enumerate(table.columns[column]):
        if isinstance(cell, str) and _POINT.fullmatch(cell.strip()):
            raise DataError(
                f"{table.place(row)}: {column!r} is {cell.strip()!r}, but other rows have decimal commas, {_UNCLEAR}"
            )


def explain(word: str) -> str:
    """Return what is wrong with a number in local writing, and what to write."""
    word = word.strip().translate(_ARABIC)
    if _COMMA.fullmatch(word) or _THOUSANDS.fullmatch(word):
        return _UNCLEAR
    return (
        "a number with a unit. Write only the number, with a decimal point, as in 1234.5; class names need "
        "kind='classification'"
    )


def _is_decimal(word: str) -> bool:
    word = word.strip().translate(_ARABIC)
    return bool(_COMMA.fullmatch(word)) and not _THOUSANDS.fullmatch(word)


def _with_point(word: str, decimal: bool) -> str | None:
    """Return a number with a point for decimals; None if that is not clear."""
    if _PLAIN.fullmatch(word):
        return word
    if _COMMA.fullmatch(word) and (decimal or not _THOUSANDS.fullmatch(word)):
        return word.replace(",", ".")
    found = _THOUSANDS.fullmatch(word)
    if found and found[3] and found[3] != found[1]:
        whole, _, part = word.rpartition(found[3])
        return f"{whole.replace(found[1], '')}.{part}"
    if found and found[1] in "' \u00a0\u202f":
        return word.replace(found[1], "")
    return None
