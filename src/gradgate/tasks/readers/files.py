"""Read local data into tables, with the line of every fault: one reader for every command."""

from __future__ import annotations

import re
from pathlib import Path

from gradgate.errors import DataError
from gradgate.tasks.readers.arrow import STATE, read_arrow, read_parquet, read_saved
from gradgate.tasks.readers.decoding import decode
from gradgate.tasks.readers.delimited import read_delimited
from gradgate.tasks.readers.fasttext import looks_like_fasttext, read_fasttext
from gradgate.tasks.readers.json_rows import read_json, split_keys
from gradgate.tasks.readers.rows import SourceTable, as_text, joined, noted, select_rows
from gradgate.tasks.readers.sentences import looks_like_columns, read_columns, read_conllu
from gradgate.tasks.readers.squad import looks_like_squad, read_squad
from gradgate.tasks.readers.text_folders import class_folders, read_folders, visible
from gradgate.tasks.types import FileFormat

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonlines": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".conllu": "conllu",
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".bioes": "conll",
    ".ft": "fasttext",
}
_WITH_LOOK = ("csv", "tsv", None)
_GLOB = re.compile(r"[*?\[]")


def read_table(path: Path, fmt: FileFormat, most: int | None = None) -> SourceTable:
    """Read the rows of a file, of several that a pattern such as ``data/train-*.parquet`` names, or of a folder.

    Cells of csv and tsv files are strings, exactly as written; those of JSON, Arrow and Parquet keep their types. Class
    indices of files that ``datasets`` has written become the classes' names. Lines that are empty are skipped. Text is
    UTF-8, with or without a byte order mark, unless the format or the text says otherwise.

    Args:
        path: a file, a pattern, a folder of ``save_to_disk``, or a folder with one folder of texts per class.
        fmt: how it is written.
        most: rows to read, of files that can be read in part; None for all.

    Raises:
        DataError: a file that is missing, empty, in another encoding or malformed; the message names the line.
    """
    files = files_of(path)
    if not files:
        raise DataError(f"{missing(path)}. Put the file there, or name another one")
    tables = [_read_one(file, fmt, None if fmt.rows else most) for file in files]
    table = tables[0] if len(tables) == 1 else joined(str(path), tables)
    for column, value in fmt.rows.items():
        cells = table.column(column, "`rows` of the format")
        table = select_rows(table, [row for row, cell in enumerate(cells) if as_text(cell) == value][:most])
        if not len(table):
            raise DataError(f"{path} has no rows with {value!r} in {column!r}, as `rows` of the format asks")
    if not len(table):
        raise DataError(f"{path} is empty: it has no rows; expected one row per example")
    return table


def files_of(path: Path) -> list[Path]:
    """Return the file or folder at a path, or the files that match it as a pattern; empty if there is nothing."""
    if path.is_file() or (path.is_dir() and is_data_folder(path)):
        return [path]
    if not _GLOB.search(path.name):
        return []
    return [file for file in visible(path.parent, path.name) if file.is_file()]


def is_data_folder(folder: Path) -> bool:
    """Return True for a folder that is one split: saved by ``datasets``, or with a folder of texts per class."""
    return (folder / STATE).is_file() or bool(class_folders(folder))


def missing(path: Path) -> str:
    """Return the message for a missing file, and what exists instead."""
    if path.exists():
        return f"{path} is {'a folder' if path.is_dir() else 'a pipe or a device'}; expected a file"
    if not path.parent.is_dir():
        return f"{path} is missing: there is no folder {path.parent}"
    entries = sorted(path.parent.iterdir())
    files = [entry.name for entry in entries if entry.is_file()]
    folders = [f"{entry.name}/" for entry in entries if entry.is_dir()]
    return f"{path} is missing; {path.parent} holds {', '.join([*files, *folders][:12]) or 'no files'}"


def detect(path: Path, text: str) -> str:
    """Return the type of a text file, by its ending and its first lines."""
    by_ending = ENDINGS.get(path.suffix.lower())
    if by_ending == "json" and looks_like_squad(text):
        return "squad"
    if by_ending in _WITH_LOOK and looks_like_fasttext(text):
        return "fasttext"
    if by_ending in ("tsv", None) and looks_like_columns(text):
        return "conll"
    if by_ending is not None:
        return by_ending
    first = next((line for line in text.split("\n", 50) if line.strip()), "")
    if first.lstrip().startswith(("{", "[{")) or first.strip() == "[":
        return "squad" if looks_like_squad(text) else "jsonl" if first.rstrip().endswith("}") else "json"
    return "tsv" if "\t" in first else "csv"


def type_by_ending(path: Path) -> str | None:
    """Return the type that a file's ending stands for; ``json`` may also hold JSON lines, or SQuAD's format."""
    return ENDINGS.get(path.suffix.lower())


def type_of(path: Path, fmt: FileFormat) -> str:
    """Return the type of a file or folder, by what the task says, its ending and its first lines."""
    if fmt.type != "auto":
        return fmt.type
    if path.is_dir():
        return "saved" if (path / STATE).is_file() else "folders"
    by_ending = type_by_ending(path)
    return by_ending if by_ending in ("parquet", "arrow") else detect(path, _text_of(path, fmt.encoding)[0])


def splits_in(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return our splits -> the entries of a JSON file that has the rows of several, and its other entries.

    Both are empty for any other file.
    """
    if type_by_ending(path) != "json" or not path.is_file():
        return {}, []
    text, _ = _text_of(path)
    return ({}, []) if looks_like_squad(text) else split_keys(path, text)


def _read_one(path: Path, fmt: FileFormat, most: int | None) -> SourceTable:
    kind = fmt.type if fmt.type != "auto" else type_by_ending(path)
    if path.is_dir():
        return read_saved(path) if (path / STATE).is_file() else read_folders(path, fmt.encoding, most)
    if kind == "parquet":
        return read_parquet(path)
    if kind == "arrow":
        return read_arrow(path)
    text, notes = _text_of(path, fmt.encoding)
    try:
        table = _parse(path, text, fmt, most)
    except DataError:
        if most is None:
            raise
        table = _parse(path, text, fmt, None)  # some faults have a remedy that needs every row
    return noted(table, *notes)


def _text_of(path: Path, encoding: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file as :func:`decode`; lines that end in carriage returns alone end in line feeds."""
    text, notes = decode(path, encoding)
    return (text.replace("\r", "\n") if "\r" in text and "\n" not in text else text), notes


def _parse(path: Path, text: str, fmt: FileFormat, most: int | None) -> SourceTable:
    kind = fmt.type if fmt.type != "auto" else detect(path, text)
    if kind == "conllu":
        return read_conllu(path, text, most)
    if kind == "conll":
        return read_columns(path, text, fmt.columns, most)
    if kind == "squad":
        return read_squad(path, text)
    if kind == "fasttext":
        return read_fasttext(path, text, most)
    if kind in ("jsonl", "json"):
        return read_json(path, text, fmt.part, most)
    return read_delimited(path, text, fmt, kind, most)
