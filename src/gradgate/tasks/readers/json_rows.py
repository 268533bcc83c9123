"""Read JSON: one object per line, an array of objects, objects of splits or of columns, pretty-printed too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.decoding import lines_of
from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.types import SPLIT_WORDS

_KEY = "id"  # the column of the names of rows in an object of id -> row


def read_json(path: Path, text: str, part: str | None = None, most: int | None = None) -> SourceTable:
    """Read rows from JSON text of any of these forms.

    Args:
        path, text: the file.
        part: the key of the rows, if the file is an object with several lists of them.
        most: rows to read, of JSON lines; None for all.

    Raises:
        DataError: text that is not JSON, or has no rows where they are expected.
    """
    if part is None and _is_lines(path, text):
        return _json_lines(path, text, most)
    whole = _whole(path, text)
    rows = whole
    if part is not None:
        if not isinstance(whole, Mapping) or part not in whole:
            there = ", ".join(map(repr, whole)) if isinstance(whole, Mapping) else "none"
            raise DataError(f"{path} has no entry {part!r}; its entries are {there}. Name one of them")
        rows = whole[part]
    if isinstance(rows, Mapping):
        rows = _rows_in(path, rows)
    if not isinstance(rows, list):
        raise DataError(f"{path} is not a JSON array; expected [{{...}}, ...], or one object on each line")
    rows = [row["row"] if isinstance(row, Mapping) and set(row) >= {"row", "row_idx"} else row for row in rows]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number} is not a JSON object but {row!r:.60}; expected {{...}}")
    return SourceTable(str(path), by_column(rows))


def split_keys(path: Path, text: str) -> dict[str, str]:
    """Return our splits -> the keys of a JSON object that has rows for each; empty for any other file."""
    if not text.lstrip().startswith("{") or _is_lines(path, text):
        return {}
    whole = _whole(path, text)
    if not isinstance(whole, Mapping) or "train" not in {SPLIT_WORDS.get(str(key).lower()) for key in whole}:
        return {}
    if not all(_is_rows(rows) for key, rows in whole.items() if str(key).lower() in SPLIT_WORDS):
        return {}
    found: dict[str, str] = {}
    for key in map(str, whole):
        split = SPLIT_WORDS.get(key.lower())
        if split in found:
            raise DataError(f"{path} has {found[split]!r} and {key!r}, which are both {split}. Rename or remove one")
        if split is not None:
            found[split] = key
    return found


def by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Return the cells of each column, ``MISSING`` where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, MISSING) for row in rows] for name in names}


def _is_lines(path: Path, text: str) -> bool:
    """Return True unless the text is one value, as of an array, or of an object over several lines."""
    first = next((line for line in _lines(text) if line.strip()), "").strip()
    if not first.startswith("{"):
        return path.suffix.lower() in (".jsonl", ".ndjson") and not _is_array(first, text)
    try:
        only = json.loads(first)
    except (ValueError, RecursionError):
        # the beginning of an object that goes over several lines, or a line with a fault
        return path.suffix.lower() in (".jsonl", ".ndjson") and first not in ("{",)
    return not (text.strip() == first and isinstance(only, dict) and _holds_rows(only, path.suffix.lower() == ".json"))


def _is_array(first: str, text: str) -> bool:
    return first.startswith("[") and text.rstrip().endswith("]") and first.lstrip("[ ")[:1] in ("", "{")


def _holds_rows(whole: Mapping[str, Any], alone: bool) -> bool:
    """Return True if an object has the rows of a file; ``alone`` if the file ends as one of a single value."""
    if _is_columns(whole) or any(_is_rows(value) and len(value) > (not alone) for value in whole.values()):
        return True
    named = {"columns", "data"} <= set(whole) or _is_lists(whole) or _is_keyed(whole)
    return alone and named and not {"tokens", "words"} & set(whole)


def _is_lists(whole: Mapping[str, Any]) -> bool:
    """Return True for an object of columns, each a list of cells."""
    lists = [cells for cells in whole.values() if isinstance(cells, list)]
    objects = any(isinstance(cell, Mapping) for cells in lists for cell in cells)
    return len(lists) == len(whole) > 0 and not objects


def _is_keyed(whole: Mapping[str, Any]) -> bool:
    """Return True for an object of id -> row, as pandas writes with orient="index": rows have a name in common."""
    rows = list(whole.values())
    named = len(rows) > 2 and all(isinstance(row, Mapping) and row for row in rows)
    if {str(key).lower() for key in whole} <= set(SPLIT_WORDS):
        return False
    return named and bool(set.intersection(*(set(row) for row in rows)))


def _is_rows(value: Any) -> bool:
    if not isinstance(value, list) or not value or not all(isinstance(row, Mapping) for row in value):
        return False
    return not all({"role", "content"} <= set(row) or {"from", "value"} <= set(row) for row in value)  # turns of a chat


def _is_columns(whole: Mapping[str, Any]) -> bool:
    """Return True for an object of columns, each an object of row -> cell, as pandas writes by default."""
    return bool(whole) and all(
        isinstance(cells, Mapping) and len(cells) > 1 and all(str(key).isdecimal() for key in cells)
        for cells in whole.values()
    )


def _rows_in(path: Path, whole: Mapping[str, Any]) -> list[Any]:
    """Return the rows that an object has under one of its entries, or as columns; raise DataError for any other."""
    if _is_columns(whole):
        columns = {name: list(cells.values()) for name, cells in whole.items()}
    elif {"columns", "data"} <= set(whole) and isinstance(whole["data"], list):  # pandas' orient="split"
        columns = {}
        rows: list[Any] = whole["data"]
        if isinstance(whole["columns"], list) and all(isinstance(row, list) for row in rows):
            return [dict(zip(map(str, whole["columns"]), row, strict=False)) for row in rows]
    elif _is_lists(whole):
        columns = dict(whole)
    elif _is_keyed(whole):
        return [{_KEY: key, **row} if _KEY not in row else dict(row) for key, row in whole.items()]
    else:
        columns = {}
    widths = {name: len(cells) for name, cells in columns.items()}
    if len(set(widths.values())) > 1:
        counts = ", ".join(f"{name!r} {width:,}" for name, width in list(widths.items())[:12])
        raise DataError(f"{path}: the columns have different numbers of cells: {counts}. Each row needs one of each")
    if columns:
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    found = {name: rows for name, rows in whole.items() if _is_rows(rows)}
    if len(found) == 1:
        return list(next(iter(found.values())))
    if not found:
        if all(not isinstance(value, list | Mapping) for value in whole.values()):
            return [dict(whole)]
        raise DataError(
            f"{path} is a JSON object without a list of rows; its entries are {', '.join(map(repr, whole))}. Expected "
            '[{...}, ...], {"data": [{...}, ...]}, {"train": [...], "test": [...]}, or one object on each line'
        )
    raise DataError(
        f"{path} is a JSON object with several lists of rows: {', '.join(map(repr, found))}. Name one, as "
        f"`format: {{part: {next(iter(found))}}}` in a task.yaml, or call them train, dev and test"
    )


def _whole(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and text.lstrip().startswith("{"):
            return _several_objects(path, text, error)
        raise DataError(
            f"{path}:{error.lineno} is not JSON: {error.msg}; expected an array [{{...}}, ...], or one object on each "
            "line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}; expected an array [{{...}}, ...]") from error


def _several_objects(path: Path, text: str, fault: json.JSONDecodeError) -> list[Any]:
    """Return objects that follow each other, each over several lines."""
    decoder, begin, found = json.JSONDecoder(), 0, []
    while (begin := _next(text, begin)) < len(text):
        try:
            value, begin = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", fault.lineno)
            raise DataError(
                f"{path}:{line} is not JSON: {getattr(error, 'msg', error)}; expected one object {{...}} on each line"
            ) from error
        found.append(value)
    return found


def _next(text: str, begin: int) -> int:
    while begin < len(text) and text[begin].isspace():
        begin += 1
    return begin


def _lines(text: str) -> list[str]:
    return text.split("\n", 200)[:200]


def _json_lines(path: Path, text: str, most: int | None) -> SourceTable:
    rows, lines = [], []
    numbered = ((number, line) for number, line in enumerate(lines_of(text), 1) if line.strip())
    for number, line in islice(numbered, most):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(
                f"{path}:{number} is not JSON: {reason} in {line!r:.60}; expected one object {{...}} on each line"
            ) from error
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number} is not a JSON object; expected one {{...}} on each line")
        rows.append(row)
        lines.append(number)
    return SourceTable(str(path), by_column(rows), lines)
