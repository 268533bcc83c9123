"""Recognise a vector of numbers in place of labels: marks of 0 and 1 without names, and scores per class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable, as_text

_YES = frozenset({"1", "1.0", "true"})
_MARKS = _YES | {"0", "0.0", "false", "-1", "-1.0"}
_SHARE = re.compile(r"0?\.\d+|[01](\.\d*)?")
_OTHER_BRACKETS = re.compile(r"(?:array|tensor)\((\[.*?\]).*\)|[({](.*)[)}]|([^\[,]+)", re.DOTALL)


def refuse_vectors(table: SourceTable, column: str, cells: Sequence[Any]) -> None:
    """Refuse as many numbers in each row, if they are marks of 0 and 1, or scores: neither names a label.

    Whole numbers may be ids of labels. Numbers in text are scores only from 0 to 1, as codes have points, too.

    Raises:
        DataError: such lists.
    """
    lists = [cell for cell in cells if isinstance(cell, list | tuple)]
    lengths = {len(cell) for cell in lists}
    if len(lists) < len(cells) or len(lengths) != 1:
        return
    width, items = lengths.pop(), [item for cell in lists for item in cell]
    if width > 1 and all(as_text(item).lower() in _MARKS for item in items):
        one_each = all(sum(as_text(item).lower() in _YES for item in cell) == 1 for cell in lists)
        names = "the name of the class that has the 1" if one_each else "the names of a row's labels in the list"
        raise DataError(
            f"{table.place(0)}: {column!r} has {width} marks of 0 and 1 in each row, which name no labels. Write "
            f"{names}, or one column per label, as label=sports,politics"
        )
    parts = [item for item in items if _is_part(item)]
    if parts and all(map(_is_number, items)):
        numbers = f"{width} numbers" if width > 1 else "a list of one number"
        write = "the name of one class in place of scores per class" if width > 1 else "a score without brackets"
        raise DataError(
            f"{table.place(0)}: {column!r} has {numbers} in each row, of which some are not whole ({parts[0]}), so "
            f"that they name no labels. Write {write}"
        )


def refuse_vector_texts(table: SourceTable, column: str, words: Sequence[str]) -> None:
    """Refuse vectors as :func:`refuse_vectors`, in text without square brackets: ``(1, 0)``, ``{1,0}``, ``1 0``."""
    found = [_OTHER_BRACKETS.fullmatch(word) for word in words]
    if words and all(found):
        inner = ("".join(filter(None, match.groups())) for match in found if match)
        lists = [[part.rstrip(".") for part in re.split(r"[\s,;|]+", text.strip("[] ,"))] for text in inner]
        if all(len(own) > 1 for own in lists):
            refuse_vectors(table, column, lists)


def _is_number(item: Any) -> bool:
    return _SHARE.fullmatch(item.strip()) is not None if isinstance(item, str) else isinstance(item, int | float)


def _is_part(item: Any) -> bool:
    """Return True for a number that is not whole, or not finite."""
    if isinstance(item, str):
        return _is_number(item) and not float(item).is_integer()
    return isinstance(item, float) and not item.is_integer()
