"""Read tables of results: CSV and TSV, JSON Lines, lists in JSON, Parquet, and data frames."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gradgate.errors import DataError, UsageError
from gradgate.study.importing.number_forms import settle_commas
from gradgate.study.importing.raw import UNNAMED, RawTable, columns_of

_MOST_BYTES = 2 << 30
_WORKBOOKS = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_UTF_16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
_ABOVE = re.compile(r"(?:\"?sep=(?P<delimiter>[^\r\n])\"?[ \t;,]*\r?\n)?(?:[ \r\n]*\n)?", re.IGNORECASE)
"""Lines above a header: of a spreadsheet with its delimiter, and blank ones."""
_REST = "\0rest"


def read_text(path: Path) -> str:
    """Read a file as UTF-8, or as the UTF-16 that Windows writes, from gzip where its name ends with ``.gz``.

    Raises:
        DataError: if it cannot be read, is larger than 2 GiB, or is not text.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}. Pass a file with results.") from None
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path} is larger than 2 GiB; expected results, one row per score. Pass a smaller file.")
    if content.startswith(_WORKBOOKS):
        raise DataError(f"{path} is a workbook or an archive; expected text. Save the sheet with the results as CSV.")
    try:
        return content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8. Save it as UTF-8, or export it again.") from None


def read_delimited(path: Path, text: str) -> RawTable:
    """Read CSV or TSV with a header; the delimiter is the one of tab, semicolon and comma that the header has most.

    A spreadsheet may state the delimiter in a line above the header, ``sep=;``, and write empty columns and rows, which
    are left out. Numbers may have a decimal comma.

    Raises:
        DataError: for a file without a header or with a row of more cells than columns; the line is named.
    """
    above = _ABOVE.match(text)
    assert above is not None
    content = text[above.end() :]
    header = content.partition("\n")[0]
    delimiter = above["delimiter"] or max("\t;,", key=header.count)
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, restkey=_REST)
    names = _read_names(path, reader)
    rows, lines = [], []
    for line, row in _read_rows(path, reader, text.count("\n", 0, above.end())):
        rows.append(row)
        lines.append(line)
    unused = {name for name in names if name.startswith(UNNAMED) and not any(row[name] for row in rows)}
    settle_commas(rows, delimiter)
    columns = tuple(name for name in names if name not in unused)
    form = "TSV" if delimiter == "\t" else "CSV"
    return RawTable(path.name, columns, rows, form, lambda index: f"{path.name} line {lines[index]}")


def _read_names(path: Path, reader: csv.DictReader[str]) -> list[str]:
    """Return the names of the columns, ``column 3`` for one without a name; DataError if two have the same."""
    given = [str(name).strip() for name in reader.fieldnames or ()]
    names = [name or f"{UNNAMED}{number}" for number, name in enumerate(given, 1)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not any(given) or twice is not None:
        what = "no header" if twice is None else f"two columns named {twice!r}"
        raise DataError(f"{path} has {what}; expected a first line that names each column once.")
    reader.fieldnames = names
    return names


def _read_rows(path: Path, reader: csv.DictReader[str], above: int) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield each row that is neither empty nor the header again, as files that were joined have it, with its line.

    ``above`` is the number of lines above the header.
    """
    try:
        for row in reader:
            line = above + reader.line_num
            rest = row.pop(_REST, None) or ()
            if any(rest):
                cells = len(row) + len(rest)
                raise DataError(
                    f"{path}, line {line}: {cells} cells in {len(row)} columns. Put cells with a "
                    f"{reader.reader.dialect.delimiter!r} in quotes."
                )
            is_header = all(cell is not None and cell.strip() == name for name, cell in row.items())
            if not is_header and any(cell and cell.strip() for cell in row.values()):
                yield line, row
    except csv.Error as error:
        raise DataError(f"{path}, line {above + reader.line_num}: {error}. Expected a table with a header.") from None


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
