"""Read numbers as spreadsheets and people write them: with a decimal comma, with separated thousands, in percent."""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
_POINT = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")
_THOUSANDS = (
    (",", re.compile(r"[-+]?\d{1,3}(?:,\d{3})+\.\d+|[-+]?\d{1,3}(?:,\d{3}){2,}")),
    (".", re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+,\d+|[-+]?\d{1,3}(?:\.\d{3}){2,}")),
    (" ", re.compile(r"[-+]?\d{1,3}(?: \d{3})+(?:[.,]\d+)?")),
)
_TYPED = str.maketrans("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}\N{MINUS SIGN}", "   -")
_SPREAD = re.compile(r"[-+]?[\d.,]+\s*%?\s*(?:±|\+/?-|\\pm|\(\s*[\d.,]+\s*%?\s*\)).*")

SCORE_PER_RUN = "A mean with its spread is not judged: pass the score of each run, a row or a column per seed."


def read_number(text: str) -> float | None:
    """Return a text as a number; None if it is not one, or if a comma may be a decimal or a thousands mark.

    ``80.1%`` is 0.801, ``0,81`` is 0.81, and ``1.234,5`` and ``1 234.5`` are 1234.5.
    """
    plain = _float(text)
    if plain is not None:
        return plain
    text = text.strip()
    bare = _with_point(text.removesuffix("%").translate(_TYPED).strip())
    return _float(f"{bare}e-2" if text.endswith("%") else bare)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _with_point(text: str) -> str:
    for mark, form in _THOUSANDS:
        if form.fullmatch(text):
            return text.replace(mark, "").replace(",", ".")
    return text.replace(",", ".") if _COMMA.fullmatch(text) and not _EITHER.fullmatch(text) else text


def read_rows(text: str) -> int | None:
    """Return a number of rows, which is whole: ``1,000``, ``1.000`` and ``1000.0`` are 1000; None for another text."""
    if re.fullmatch(r"\d{1,3}[.,]\d{3}", text):
        return int(re.sub("[.,]", "", text))
    number = read_number(text)
    return int(number) if number is not None and number.is_integer() and "%" not in text else None


def is_spread(text: str) -> bool:
    """Return True for a mean with its spread, such as ``0.81 ± 0.02`` or ``80.1 (0.3)``."""
    return _SPREAD.fullmatch(text.strip()) is not None


def settle_commas(rows: Sequence[dict[str, str | None]], delimiter: str) -> None:
    """Write each number whose comma may be a decimal or a thousands mark as the rest of its table says, in place.

    ``81,234`` is 81.234 in a table that has other numbers with a decimal comma and none with a point; it is 81234 in
    one that has the opposite. If nothing says, it is 81.234 between semicolons and 81234 between commas, as
    spreadsheets write them; between tabs it is not read.
    """
    either = [(row, name) for row in rows for name, cell in row.items() if cell and _EITHER.fullmatch(_bare(cell))]
    if not either:
        return
    cells = [_bare(cell) for row in rows for cell in row.values() if cell]
    has_commas = any(_COMMA.fullmatch(cell) and not _EITHER.fullmatch(cell) for cell in cells)
    has_points = any(_POINT.fullmatch(cell) for cell in cells)
    if delimiter == ";" or (has_commas and not has_points):
        mark = "."
    elif delimiter == "," or (has_points and not has_commas):
        mark = ""
    else:
        return
    for row, name in either:
        row[name] = str(row[name]).replace(",", mark)


def _bare(cell: str) -> str:
    return cell.strip().removesuffix("%").strip()
