"""Make text harmless where it is shown: no control character reaches a terminal, and no formula a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from typing import Any

# Escape sequences begin with a character of C0 or C1. The others reorder or hide text, or are not text in UTF-8 or XML.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "␡"
# A spreadsheet takes a cell that begins with one of these for a formula, and runs it.
_FORMULA = re.compile("'*[=+@\t\n＝＋－＠-]")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?%?")


def visible(text: str) -> str:
    """Replace each control character by a picture, such as ``␛`` for ESC; tabs and line ends stay."""
    return UNSAFE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"\\u{code:04x}"


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV that is safe to open in a spreadsheet and to print; None is an empty cell.

    Numbers stay as they are, also as text. Text that a spreadsheet would take for a formula gets an apostrophe in
    front, which :func:`cell_text` removes. Control characters become pictures.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_safe(value) for value in row] for row in rows)
    return text.getvalue()


def csv_table(records: Iterable[Mapping[str, Any]]) -> str:
    """Return records as CSV, as :func:`csv_text` does; a value that a record lacks is an empty cell."""
    records = list(records)
    names = list(dict.fromkeys(name for record in records for name in record))
    return csv_text([names, *([record.get(name) for name in names] for record in records)])


def cell_text(cell: str) -> str:
    """Return the text of a cell that :func:`csv_text` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def _safe(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
