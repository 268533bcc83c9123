"""Find the text and label columns of a table: by name, else by their cells if only one reading fits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.joined_labels import has_label_lists, refuse_joined
from gradgate.tasks.local_numbers import are_local, in_points, is_whole
from gradgate.tasks.readers.rows import MISSING, SourceTable, as_text, unnamed
from gradgate.tasks.spelling import Spelling
from gradgate.tasks.types import KindName
from gradgate.tasks.vectors import refuse_vector_texts

PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "context"),
    ("question1", "question2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("text", "text_pair"),
)
SINGLES = ("text", "sentence", "review", "content")
LABELS = ("label", "gold_label", "class", "category", "target", "sentiment", "score")
MOST_CLASSES = 100
"""More whole-number labels than this may be classes or scores, so the user must choose."""
_LOOKED_AT = 2000  # rows
_NEARLY_ALL = 0.9  # of them
_LEAST_WORDS = 3.0  # of a text, on average
_LONGEST_LABEL = 40  # characters
_SHOWN = 40
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")


def find_text(table: SourceTable, text: str | None, pair: str | None, label: str | None) -> str | tuple[str, str]:
    """Find the text column, or the two of a pair.

    Args:
        text, pair, label: what the user named.

    Raises:
        DataError: no column or several could be the text.
    """
    if text:
        return (text, pair) if pair else text
    there = {column.lower(): column for column in table.columns}
    pairs = [named for named in PAIRS if set(named) <= set(there)]
    if len(pairs) == 1 and not (set(SINGLES) & set(there)) - set(pairs[0]):
        return there[pairs[0][0]], there[pairs[0][1]]
    parameters = "text= and text_pair=" if pairs else "text= (and text_pair=)"
    if pairs:
        raise DataError(_ambiguous(table, "text", [column for named in pairs for column in named], parameters))
    named = [there[name] for name in SINGLES if name in there]
    found = named or [column for column in _named(table) if column != label and _is_text(_sample(table, column))]
    if len(found) != 1:
        raise DataError(_ambiguous(table, "text", found, parameters))
    return found[0]


def find_label(table: SourceTable, text: str | tuple[str, ...]) -> str:
    """Find the label column of a table with these text columns.

    Raises:
        DataError: no column or several could be the label, or the file seems to have no header.
    """
    there = {column.lower(): column for column in table.columns}
    named = [there[name] for name in LABELS if name in there]
    taken = (text,) if isinstance(text, str) else text
    named = named or [there[name] for name in ("labels",) if name in there]
    found = named or [column for column in _named(table) if column not in taken and _is_label(_sample(table, column))]
    if not found:
        found = [
            column for column in _named(table) if column not in taken and _is_mostly_scores(_sample(table, column))
        ]
    if len(found) != 1:
        raise DataError(_ambiguous(table, "label", found, "label="))
    is_value = found[0] in map(as_text, table.columns[found[0]])
    if _may_lack_header(table) and (is_value or _is_number(found[0])):
        what = "one of its own values" if is_value else "a number"
        raise DataError(
            f"{table.source} has the column {found[0]!r}, which is {what}: the first line is a row and no header. Put "
            "a line with the names of the columns above it, such as text,label; or describe the file in a task.yaml "
            "with `format: {header: false, columns: [...]}`; or name the column with label= if it is right"
        )
    return found[0]


def find_kind(table: SourceTable, label: str) -> KindName:
    """Infer ``classification`` for words and a few whole numbers, ``regression`` for numbers with decimals.

    Lists of labels, and several columns, are ``multi-label``.

    Raises:
        DataError: numbers that may be either, scores of which some are not numbers, with the line of the first, or
            several labels joined to one text.
    """
    if label not in table.columns and {part.strip() for part in label.split(",")} <= set(table.columns):
        return "multi-label"
    if has_label_lists(table, label):
        return "multi-label"
    words = [as_text(cell) for cell in table.column(label, "label=")]
    refuse_joined(table, label, words)
    refuse_vector_texts(table, label, words)
    if are_local(words):
        words = [as_text(cell) for cell in in_points(table, label).columns[label]]
    spelling = Spelling.of(words)
    names = {word: spelling.name(word) for word in set(words)}
    cells = [names[word] for word in words]
    labels = set(cells)
    numbers = {word for word in labels if _is_number(word)}
    if numbers != labels:
        _refuse_broken_scores(table, label, cells, numbers)
        return "classification"
    if all(is_whole(word) for word in labels):
        if len(labels) <= MOST_CLASSES:
            return "classification"
    elif all(not is_whole(word) for word in labels) and any(float(word) % 1 for word in labels):
        return "regression"
    shown = ", ".join(sorted(labels)[:5])
    an_id = " look like ids: name another column with label=. Otherwise they" if len(labels) == len(cells) else ""
    raise DataError(
        f"The {len(labels):,} values of {label!r} in the {len(cells):,} rows of {table.source} ({shown}, ...){an_id} "
        "could be classes or scores; pass kind='classification' or kind='regression'"
    )


def _refuse_broken_scores(table: SourceTable, label: str, cells: Sequence[str], numbers: set[str]) -> None:
    """Refuse a column of numbers in which some cells are not numbers; if numbers are few, labels are words."""
    scores = sum(word in numbers for word in cells)
    decimal = any(not is_whole(word) for word in numbers)
    broken = [row for row, word in enumerate(cells) if word not in numbers]
    never = all(map(_is_not_finite, {cells[row] for row in broken}))
    if numbers and ((decimal and scores > len(broken)) or never):
        row = broken[0]
        raise DataError(
            f"{table.place(row)}: {label!r} is {cells[row]!r}, and {scores} of {len(cells)} rows have numbers there. "
            "Expected a finite number such as 1.5 in every row; correct or remove the row, or pass "
            "kind='classification' if these are names of classes"
        )


def is_date(word: str) -> bool:
    """Return True for a date such as ``2024-01-31`` or ``31/1/2024``, with or without a time."""
    return _DATE.fullmatch(word) is not None


def _is_text(cells: Sequence[Any]) -> bool:
    """Return True if most cells are different strings of several words."""
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return False
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    return words >= _LEAST_WORDS and 2 * len(set(cells)) > len(cells) and not all(map(is_date, cells))


def _is_label(cells: Sequence[Any]) -> bool:
    """Return True if the cells are a few short values that repeat, or numbers with decimals."""
    words = [as_text(cell) for cell in cells]
    if not words or any(isinstance(cell, (list, dict)) for cell in cells):
        return False
    values = set(words)
    if all(_is_number(word) for word in values) and any(not is_whole(word) for word in values):
        return True
    short = all(len(word) <= _LONGEST_LABEL for word in values)
    repeated = 2 <= len(values) <= min(MOST_CLASSES, len(words) // 2)
    return short and repeated and not all(is_date(word) for word in values if word)


def _is_mostly_scores(cells: Sequence[Any]) -> bool:
    """Return True if nearly all cells are numbers, some with decimals."""
    numbers = [word for word in map(as_text, cells) if _is_number(word)]
    return len(numbers) >= _NEARLY_ALL * len(cells) > 0 and not all(map(is_whole, numbers))


def _named(table: SourceTable) -> list[str]:
    """Return the columns that the file names, and not those that have a number because it does not."""
    return [name for place, name in enumerate(table.columns, 1) if name != unnamed(place)]


def _may_lack_header(table: SourceTable) -> bool:
    """Return True unless the names of columns are written in each row, or in a schema."""
    return table.lines is not None and not table.source.lower().endswith((".jsonl", ".ndjson", ".jsonlines", ".json"))


def _sample(table: SourceTable, column: str) -> Sequence[Any]:
    """Return the cells of the first rows that have one."""
    return [cell for cell in table.columns[column][:_LOOKED_AT] if cell is not None and cell is not MISSING]


def _ambiguous(table: SourceTable, what: str, found: list[str], parameter: str) -> str:
    which = f"several could be the {what} ({', '.join(found)})" if found else f"none is known to be the {what}"
    columns = ", ".join(_shown(column) for column in table.columns)
    examples = "; ".join(f"{_shown(name)}: {_shown(cells[0])}" for name, cells in table.columns.items() if len(cells))
    header = ""
    if _may_lack_header(table):
        header = (
            "; if the file has no header, describe it in a task.yaml with `format: {header: false, columns: [...]}`"
        )
    marks = [column for column in found if what == "label" and _is_marks(_sample(table, column))]
    if len(marks) > 1:
        header = f", all of them for kind='multi-label', as label={','.join(marks)}{header}"
    return (
        f"{table.source} has the columns {columns}: {which}. Name it with {parameter}{header}. "
        f"The first row is {examples}"
    )


def _is_marks(cells: Sequence[Any]) -> bool:
    """Return True for 0 and 1, which mark the rows that have a label."""
    return bool(cells) and set(map(as_text, cells)) <= {"0", "1", "0.0", "1.0", "true", "false", "True", "False"}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _is_not_finite(word: str) -> bool:
    try:
        return not math.isfinite(float(word))
    except ValueError:
        return False
