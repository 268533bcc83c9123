"""Read JSON: one object per line, an array of objects, objects of splits or of columns, pretty-printed too."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gradgate.errors import DataError, some_of
from gradgate.tasks.readers.decoding import lines_of
from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.readers.viewer import are_viewed, named_classes, page_notes, unwrapped
from gradgate.tasks.split_names import by_split
from gradgate.tasks.types import TRAIN

_NOTHING: tuple[object, ...] = ([], {}, None)
_ABOUT = ("schema", "features", "info", "meta", "metadata", "licenses")  # keys that describe rows
_TEXT_OR_END = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\}')
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
    rows, notes = whole, []
    if part is not None:
        if not isinstance(whole, Mapping) or part not in whole:
            there = ", ".join(map(repr, whole)) if isinstance(whole, Mapping) else "none"
            raise DataError(f"{path} has no entry {part!r}; its entries are {there}. Name one of them")
        rows = whole[part]
    if isinstance(rows, Mapping):
        if are_viewed(rows.get("rows")):
            return _viewed(path, rows["rows"], page=rows)
        whole, rows = rows, _rows_in(path, rows)
        own = [key for key, value in whole.items() if value is rows]
        notes = [f"{path.name}: not used: {some_of(left, 6)}"] if own and (left := _others(whole, own)) else []
    if not isinstance(rows, list):
        raise DataError(f"{path} is not a JSON array; expected [{{...}}, ...], or one object on each line")
    if are_viewed(rows):
        return _viewed(path, rows)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number} is not a JSON object but {row!r:.60}; expected {{...}}")
    return SourceTable(str(path), by_column(rows), notes=tuple(notes))


def split_keys(path: Path, text: str) -> tuple[dict[str, str], list[str]]:
    """Return our splits -> the keys of a JSON object that has rows for each, and its other keys with data.

    Both are empty for any other file.

    Raises:
        DataError: two keys for one split, or a split that is not a list of rows next to train, which is one.
    """
    if not text.lstrip().startswith("{") or _is_lines(path, text):
        return {}, []
    whole = _whole(path, text)
    if not isinstance(whole, Mapping):
        return {}, []
    found = by_split(
        key
        for key, rows in whole.items()
        if rows not in _NOTHING and (_is_rows(rows) or key.lower()[:5] not in ("test_", "test-", "test "))
    )  # test_size is not a split
    named = by_split(whole).get(TRAIN, ())
    if named and TRAIN not in found and any(_is_rows(whole[key]) for keys in found.values() for key in keys):
        raise DataError(f"{path}: {named[0]!r} has no rows, but other splits have. Add rows to train on")
    if not any(_is_rows(whole[key]) for key in found.get(TRAIN, ())):
        return {}, []
    for split, keys in found.items():
        if len(keys) > 1:
            raise DataError(f"{path} has {' and '.join(map(repr, keys))}, which are both {split}. Rename or remove one")
        if not _is_rows(whole[keys[0]]):
            raise DataError(
                f"{path}: {keys[0]!r} is not a list of rows as the others are, but {whole[keys[0]]!r:.60}; expected "
                "[{...}, ...]. Write it so, or remove it"
            )
    own = {split: key for split, (key,) in found.items()}
    return own, _others(whole, own.values())


def _others(whole: Mapping[str, Any], used: Collection[str]) -> list[str]:
    """Return the keys of an object that are not used and may have rows or labels."""
    return [
        repr(key)
        for key, value in whole.items()
        if key not in used and key.lower() not in _ABOUT and isinstance(value, list | Mapping) and value
    ]


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
    splits = by_split(whole)
    by_column = all(isinstance(cell, list) for row in rows if isinstance(row, Mapping) for cell in row.values())
    if sum(map(len, splits.values())) == len(whole) or (TRAIN in splits and by_column):
        return False
    return named and bool(set.intersection(*(set(row) for row in rows)))


def _is_rows(value: Any) -> bool:
    if not isinstance(value, list) or not value or not all(isinstance(row, Mapping) for row in value):
        return False
    return not all({"role", "content"} <= set(row) or {"from", "value"} <= set(row) for row in value)  # turns of a chat


def _is_columns(whole: Mapping[str, Any]) -> bool:
    """Return True for an object of columns, each an object of row -> cell, as pandas writes by default."""
    columns = list(whole.values())
    if not all(isinstance(cells, Mapping) and all(map(str.isdecimal, cells)) for cells in columns):
        return False
    return any(len(cells) > 1 for cells in columns)


def _rows_in(path: Path, whole: Mapping[str, Any]) -> list[Any]:
    """Return the rows that an object has under one of its entries, or as columns; raise DataError for any other."""
    if _is_columns(whole):
        columns = _by_row_name(path, whole)
    elif _is_split(whole):
        return _rows_of_split(path, whole)
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
        only: list[Any] = next(iter(found.values()))
        return only
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


def _by_row_name(path: Path, whole: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the cells of each column in the order of the first one's rows, which other columns may not share."""
    first, *others = whole
    for name in others:
        lacks = [repr(row) for row in whole[first] if row not in whole[name]]
        alone = [repr(row) for row in whole[name] if row not in whole[first]]
        if lacks or alone:
            faults = [
                f"{column!r} has no {some_of(rows, 5)}" for column, rows in ((name, lacks), (first, alone)) if rows
            ]
            raise DataError(
                f"{path}: the columns {first!r} and {name!r} have cells of different rows: {'; '.join(faults)}. Each "
                "row needs a cell in every column: add the cells, or remove the rows"
            )
    return {name: [cells[row] for row in whole[first]] for name, cells in whole.items()}


def _is_split(whole: Mapping[str, Any]) -> bool:
    """Return True for an object of columns' names and rows of cells, as pandas writes with orient="split"."""
    names, rows = whole.get("columns"), whole.get("data")
    return isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows)


def _rows_of_split(path: Path, whole: Mapping[str, Any]) -> list[Any]:
    names = list(map(str, whole["columns"]))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: the column {twice!r} occurs twice in `columns`. Rename or remove one")
    for number, row in enumerate(whole["data"], 1):
        if len(row) != len(names):
            raise DataError(
                f"{path}, row {number} of `data` has {len(row)} cells, expected {len(names)} ({', '.join(names)}). "
                "Each row needs one of each"
            )
    return [dict(zip(names, row, strict=True)) for row in whole["data"]]


def strict_decoder(path: Path, line_of: Callable[[str, int], int]) -> json.JSONDecoder:
    """Return a decoder that refuses objects with one key twice, of which the last would replace the others.

    Args:
        path: of the file.
        line_of: returns the line of such a key; takes the key, and how many objects have ended, this one among them.
    """
    ended = count(1)

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found, number = dict(pairs), next(ended)
        if len(found) < len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise DataError(
                f"{path}:{line_of(key, number)}: an object has the key {key!r:.60} twice; expected each key once. "
                "Rename or remove one"
            )
        return found

    return json.JSONDecoder(object_pairs_hook=read)


def line_of_key(text: str, key: str, ended: int) -> int:
    """Return the line in which a key stands last in an object of a text, where ``ended`` objects have ended with it."""
    ends = (found.end() for found in _TEXT_OR_END.finditer(text) if found[0] == "}")
    end = next(islice(ends, ended - 1, None))
    begin = text.rfind(json.dumps(key, ensure_ascii=False), 0, end)
    return text.count("\n", 0, begin if begin >= 0 else end) + 1


def _whole(path: Path, text: str) -> Any:
    try:
        return strict_decoder(path, partial(line_of_key, text)).decode(text)
    except DataError:
        raise
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
    decoder, begin, found = strict_decoder(path, partial(line_of_key, text)), 0, []
    while (begin := _next(text, begin)) < len(text):
        try:
            value, begin = decoder.raw_decode(text, begin)
        except DataError:
            raise
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
    rows: list[Any] = []
    lines: list[int] = []
    decoder = strict_decoder(path, lambda key, ended: lines[-1])
    numbered = ((number, line) for number, line in enumerate(lines_of(text), 1) if line.strip())
    for number, line in islice(numbered, most):
        lines.append(number)
        try:
            row = decoder.decode(line)
        except DataError:
            raise
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(
                f"{path}:{number} is not JSON: {reason} in {line!r:.60}; expected one object {{...}} on each line"
            ) from error
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number} is not a JSON object; expected one {{...}} on each line")
        rows.append(row)
    return _viewed(path, rows, lines) if are_viewed(rows) else SourceTable(str(path), by_column(rows), lines)


def _viewed(
    path: Path, rows: list[Any], lines: list[int] | None = None, page: Mapping[str, Any] = MappingProxyType({})
) -> SourceTable:
    """Return the table of rows of the hub's viewer; the page that has them may describe them."""
    bare = SourceTable(str(path), {}, lines)
    columns = named_classes(str(path), page, by_column(unwrapped(rows, bare.place)))
    return replace(bare, columns=columns, notes=tuple(page_notes(page, len(rows))))
