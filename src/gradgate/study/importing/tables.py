"""Read tables of results: CSV and TSV, JSON Lines, lists in JSON, Parquet, and data frames."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradgate.errors import DataError, UsageError
from gradgate.study.importing.raw import RawTable, columns_of

_MOST_BYTES = 2 << 30
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


def read_text(path: Path) -> str:
    """Read a file as UTF-8, from gzip where its name ends with ``.gz``.

    Raises:
        DataError: if it cannot be read, is larger than 2 GiB, or is not UTF-8.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}. Pass a file with results.") from None
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path} is larger than 2 GiB; expected results, one row per score. Pass a smaller file.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8. Save it as UTF-8, or export it again.") from None


def read_delimited(path: Path, text: str) -> RawTable:
    """Read CSV or TSV with a header; the delimiter is the one of tab, semicolon and comma that the header has most.

    Numbers between semicolons may have a decimal comma, as spreadsheets write them in many languages.

    Raises:
        DataError: for a file without a header or with a row of more cells than columns; the line is named.
    """
    header = text.partition("\n")[0]
    delimiter = max("\t;,", key=header.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restkey="\0rest")
    names = [str(name).strip() for name in reader.fieldnames or ()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not any(names) or twice is not None:
        what = "no header" if twice is None else f"two columns named {twice!r}"
        raise DataError(f"{path} has {what}; expected a first line that names each column once.")
    reader.fieldnames = names
    rows, lines = [], []
    try:
        for row in reader:
            if "\0rest" in row:
                cells = len(names) + len(row["\0rest"])
                raise DataError(
                    f"{path}, line {reader.line_num}: {cells} cells in {len(names)} columns. Put cells with a "
                    f"{delimiter!r} in quotes."
                )
            rows.append(row if delimiter != ";" else {name: _with_point(cell) for name, cell in row.items()})
            lines.append(reader.line_num)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}. Expected a table with a header.") from None
    form = {"\t": "TSV", ";": "CSV", ",": "CSV"}[delimiter]
    return RawTable(path.name, tuple(names), rows, form, lambda index: f"{path.name} line {lines[index]}")


def _with_point(cell: str | None) -> str | None:
    return cell.replace(",", ".") if cell is not None and _DECIMAL_COMMA.fullmatch(cell) else cell


def read_json_lines(path: Path, text: str) -> RawTable:
    """Read JSON Lines, an object per line.

    Raises:
        DataError: for a line that is not an object; it is named.
    """
    rows, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: {error}. Expected a JSON object per line.") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: {type(row).__name__}; expected a JSON object per line.")
        rows.append(flattened(row))
        lines.append(number)
    return RawTable(path.name, columns_of(rows), rows, "JSON Lines", lambda at: f"{path.name} line {lines[at]}")


def of_objects(source: str, objects: list[Mapping[str, Any]]) -> RawTable:
    """Return the table of a JSON list of objects; nested values are named by their path, ``config.lr``."""
    rows = [flattened(each) for each in objects]
    return RawTable(source, columns_of(rows), rows, "JSON", lambda index: f"{source} entry {index + 1}")


def read_parquet(path: Path) -> RawTable:
    """Read a Parquet file; DataError if it is not one."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        table = read_table(path)
    except (OSError, ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}. Export it again.") from None
    rows = [flattened(row) for row in table.to_pylist()]
    return RawTable(path.name, columns_of(rows), rows, "Parquet", lambda index: f"{path.name} row {index + 1}")


def of_frame(frame: Any) -> RawTable:
    """Return the table of a data frame of pandas or Polars, or of a sequence of mappings.

    Raises:
        UsageError: for something else.
    """
    if hasattr(frame, "to_dicts"):
        rows = frame.to_dicts()
    elif hasattr(frame, "to_dict") and hasattr(frame, "columns"):
        rows = frame.reset_index(drop=True).to_dict("records")
    elif isinstance(frame, list | tuple) and all(isinstance(row, Mapping) for row in frame):
        rows = list(frame)
    else:
        raise UsageError(
            f"results={type(frame).__name__}: expected a path, a data frame, or a list of mappings with a score each."
        )
    named = [{str(name): cell for name, cell in row.items()} for row in rows]
    return RawTable("data frame", columns_of(named), named, "data frame", lambda index: f"row {index}")


def flattened(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values under the path of their names, ``config.lr``; lists as they are."""
    found: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, Mapping):
            found |= flattened(cell, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = cell
    return found
