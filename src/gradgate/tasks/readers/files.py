"""Read local data files into tables, with the line of every fault: CSV, TSV, JSON lines, JSON and Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Sequence
from itertools import dropwhile, islice, takewhile
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import MISSING, Table
from gradgate.tasks.readers.sentences import read_columns, read_conllu
from gradgate.tasks.readers.squad import looks_like_squad, read_squad
from gradgate.tasks.types import FileFormat

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".conllu": "conllu",
}
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LONGEST_FIELD = 2**31 - 1
_NOT_TEXT = {
    b"\x1f\x8b": "compressed by gzip, and text is expected; unpack it with `gunzip`",
    b"BZh": "compressed by bzip2, and text is expected; unpack it with `bunzip2`",
    b"\xfd7zXZ": "compressed by xz, and text is expected; unpack it with `unxz`",
    b"PK\x03\x04": "a zip archive or a spreadsheet, and text is expected; unpack it, or save the sheet as CSV (UTF-8)",
    b"PAR1": "a Parquet file, and its name ends otherwise; rename it to end in .parquet",
}
_HEAD_LINES = 1000
_PANDAS_INDEX = "__index_level_"


def read_table(path: Path, fmt: FileFormat) -> Table:
    """Read every row of a file.

    Cells of csv and tsv files are strings, exactly as written; those of JSON and Parquet keep their types.
    Lines that are empty are skipped. Text is UTF-8, with or without a byte order mark.

    Raises:
        DataError: a file that is missing, empty, not UTF-8 or malformed; the message names the line.
    """
    if not path.is_file():
        raise DataError(f"{missing(path)}. Put the file there, or name another one")
    table = _parquet(path) if _is_parquet(path, fmt) else _parse(path, _decode(path), fmt)
    if not len(table):
        raise DataError(f"{path} is empty: it has no rows; expected one row per example")
    return table


def peek(path: Path, fmt: FileFormat) -> Table:
    """Read the first row of a file, or all if its lines are not rows; raise DataError as ``read_table`` does."""
    if _is_parquet(path, fmt):
        return _parquet(path)
    text = _decode(path)
    kind = _type_of(path, text, fmt)
    if kind == "squad":
        return _parse(path, text, fmt)
    if kind in ("conll", "conllu"):
        head = [line for line in text.split("\n")[:_HEAD_LINES] if not line.startswith("-DOCSTART-")]
        sentence = dropwhile(lambda line: not line.strip(), head)
        return _parse(path, "\n".join(takewhile(lambda line: line.strip(), sentence)), fmt)
    lines = (line for line in text.split("\n") if line.strip())
    return _parse(path, "\n".join(islice(lines, 2 if fmt.header else 1)), fmt)


def missing(path: Path) -> str:
    """Return the message for a missing file, and what exists instead."""
    if path.exists():
        return f"{path} is {'a folder' if path.is_dir() else 'a pipe or a device'}, and a file is expected"
    if not path.parent.is_dir():
        return f"{path} is missing: there is no folder {path.parent}"
    entries = sorted(path.parent.iterdir())
    files = [entry.name for entry in entries if entry.is_file()]
    folders = [f"{entry.name}/" for entry in entries if entry.is_dir()]
    return f"{path} is missing; {path.parent} holds {', '.join([*files, *folders][:12]) or 'no files'}"


def detect(path: Path, text: str) -> str:
    """Return the type of a text file, by its ending and its first line that is not blank."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    by_ending = ENDINGS.get(path.suffix.lower())
    if by_ending == "json" and looks_like_squad(text):
        return "squad"
    if by_ending == "json" and first.lstrip().startswith("{"):
        return "jsonl"
    if by_ending is not None:
        return by_ending
    try:
        if isinstance(json.loads(first), dict):
            return "jsonl"
    except (ValueError, RecursionError):
        pass
    return "tsv" if "\t" in first else "csv"


def type_by_ending(path: Path) -> str | None:
    """Return the type that a file's ending stands for; ``json`` may also hold JSON lines, or SQuAD's format."""
    return ENDINGS.get(path.suffix.lower())


def _is_parquet(path: Path, fmt: FileFormat) -> bool:
    return fmt.type == "parquet" or (fmt.type == "auto" and ENDINGS.get(path.suffix.lower()) == "parquet")


def _type_of(path: Path, text: str, fmt: FileFormat) -> str:
    return fmt.type if fmt.type != "auto" else detect(path, text)


def _parse(path: Path, text: str, fmt: FileFormat) -> Table:
    kind = _type_of(path, text, fmt)
    if kind == "conllu":
        return read_conllu(path, text)
    if kind == "conll":
        return read_columns(path, text, fmt.columns or ())
    if kind == "squad":
        return read_squad(path, text)
    if kind == "jsonl":
        return _json_lines(path, text)
    if kind == "json":
        return _json_array(path, text)
    return _delimited(path, text, fmt, kind)


def _decode(path: Path) -> str:
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}. Expected a data file; check its path and permissions"
        ) from error
    if packed := next((name for start, name in _NOT_TEXT.items() if data.startswith(start)), None):
        raise DataError(f"{path} is {packed}; expected plain text. Give a csv, tsv, jsonl, json or parquet file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        guess = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin1"
        raise DataError(
            f"{path}:{line} is not UTF-8 (byte 0x{data[error.start]:02x}); convert the file, "
            f"for example with `iconv -f {guess} -t utf-8`"
        ) from error


def _json_lines(path: Path, text: str) -> Table:
    rows, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}:{number} is not JSON: {_reason(error)} in {line!r:.60}; expected one object {{...}} on "
                f"each line"
            ) from error
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number} is not a JSON object; expected one {{...}} on each line")
        rows.append(row)
        lines.append(number)
    return Table(str(path), _by_column(rows), lines)


def _json_array(path: Path, text: str) -> Table:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno} is not JSON: {error.msg}; expected an array [{{...}}, ...]") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {_reason(error)}; expected an array [{{...}}, ...]") from error
    if not isinstance(rows, list):
        raise DataError(f"{path} is not a JSON array; expected [{{...}}, ...], or one object on each line")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number} is not a JSON object but {row!r:.60}; expected {{...}}")
    return Table(str(path), _by_column(rows))


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


def _by_column(rows: list[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, MISSING) for row in rows] for name in names}


def _parquet(path: Path) -> Table:
    import pyarrow
    from pyarrow import parquet

    try:
        rows = parquet.ParquetFile(path).read()
        names = [name for name in rows.column_names if not name.startswith(_PANDAS_INDEX)]
        return Table(str(path), {name: rows.column(name).to_pylist() for name in names})
    except (OSError, ValueError, KeyError, OverflowError, pyarrow.ArrowException) as error:
        raise DataError(
            f"{path} is not a Parquet file that can be read: {error}. Expected one as pandas or pyarrow write it"
        ) from error


def _delimited(path: Path, text: str, fmt: FileFormat, kind: str) -> Table:
    quoting = kind == "csv" if fmt.quoting is None else fmt.quoting
    delimiter = "\t" if kind == "tsv" else _delimiter(text) if fmt.header else ","
    records = _quoted(path, text, delimiter) if quoting else _unquoted(text, delimiter)
    names = fmt.columns
    if names is None:
        if not records:
            return Table(str(path), {})
        names = tuple(name.strip() for name in records.pop(0)[1])
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"{path}: the column name {twice[0]!r} occurs twice; give each column its own name")
    rows, lines = [], []
    for line, row in records:
        if len(row) < len(names) or (len(row) > len(names) and not fmt.extra_columns):
            raise DataError(_wrong_width(path, line, row, names, quoting, delimiter))
        rows.append(row[: len(names)])
        lines.append(line)
    cells: Sequence[Sequence[str]] = list(zip(*rows, strict=True)) or [()] * len(names)
    return Table(str(path), dict(zip(names, cells, strict=True)), lines)


def _delimiter(text: str) -> str:
    """Return the separator in the header of a csv file: the most frequent of those in use, commas first."""
    header = re.sub(r'"[^"]*"', "", next((line for line in text.split("\n") if line.strip()), ""))
    return max(_DELIMITERS, key=header.count)


def _unquoted(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line]


def _quoted(path: Path, text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records = []
    begins = 1
    before = csv.field_size_limit(_LONGEST_FIELD)  # a global of the csv module: put back below
    try:
        for row in reader:
            if row:
                records.append((begins, row))
            begins = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{begins} is malformed: {error}. "
            "If quotes have no meaning in this file, say `format: {quoting: false}`"
        ) from error
    finally:
        csv.field_size_limit(before)
    return records


def _wrong_width(path: Path, line: int, row: list[str], names: Sequence[str], quoting: bool, delimiter: str) -> str:
    hint = ""
    if not quoting and any(cell.startswith('"') for cell in row):
        hint = ". Quotes enclose nothing in this file as it is read now; if they should, say `format: {quoting: true}`"
    elif len(row) == 1:
        hint = f". The columns are split at {_DELIMITERS[delimiter]}; is the file of another type?"
    return f"{path}:{line} has {len(row)} columns, expected {len(names)} ({', '.join(names)}){hint}"
