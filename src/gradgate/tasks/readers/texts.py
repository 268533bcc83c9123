"""Read running text: a file with one text per line, a column of a table, or a data set of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradgate.errors import DataError
from gradgate.places import typed_path
from gradgate.tasks.readers.decoding import decode, lines_of
from gradgate.tasks.readers.files import ENDINGS, detect, missing, read_table
from gradgate.tasks.readers.hub import check_reachable, read_split
from gradgate.tasks.readers.rows import SourceTable, check_characters
from gradgate.tasks.types import FileFormat, HubSource

_ONE_FILE = "one of its files in its place"


@dataclass(frozen=True)
class Asked:
    """The names of the user's settings for what is read, for messages.

    Attributes:
        place: the setting that names the file or data set.
        column: the setting that names its column.
    """

    place: str = "language_data="
    column: str = "text="


def read_texts(where: str, column: str, subset: str | None = None) -> list[str]:
    """Read texts from a plain text file (one per line), a column of a csv, tsv, JSON or Parquet file, or the hub.

    A file without a known suffix is a table if its first line is a JSON object. Blank texts are left out. From a data
    set of the hub, the split ``train`` is read; ``subset`` is its configuration.

    Raises:
        DataError: if there is nothing to read, or it cannot be read.
    """
    return texts_of(read_source(where, subset), column, where)


def read_source(where: str, subset: str | None = None, split: str = "train") -> SourceTable | list[str]:
    """Read a table, or the lines of a plain text file.

    Raises:
        DataError: if there is nothing to read, or it cannot be read.
    """
    path = typed_path(where)
    if path.is_dir():
        raise DataError(f"{path} is a folder; pass one file of it, with one text per line or a column of texts")
    if path.suffix.lower() in ENDINGS:
        return read_table(path, FileFormat())
    if path.is_file():
        lines = _lines(path)
        is_table = detect(path, "\n".join(lines[:1])) == "jsonl"
        return read_table(path, FileFormat(type="jsonl")) if is_table else lines
    if where.count("/") == 1 and not where.startswith((".", "/", "~")):
        source = HubSource(path=where, name=subset, splits={"train": split})
        check_reachable(source, _ONE_FILE)
        return read_split(source, "train", "", _ONE_FILE)
    raise DataError(f"{missing(path)}. Pass a text file with one text per line, a table, or a data set of the hub")


def texts_of(source: SourceTable | Sequence[str], column: str, where: str, asked: Asked = Asked()) -> list[str]:
    """Return the texts of a column of a table, or of lines; blank ones are left out.

    Raises:
        DataError: no such column, a cell that is not text or has half a character, or no text at all.
    """
    cells = _cells(source, column, asked) if isinstance(source, SourceTable) else source
    texts = [text for cell in cells if (text := cell.strip())]
    if not texts:
        raise DataError(f"{where} has no text; expected at least one line. Pass another {asked.place}")
    return texts


def _cells(table: SourceTable, column: str, asked: Asked) -> list[str]:
    cells = table.column(column, asked.column)
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            raise DataError(
                f"{table.place(row)}: {column!r} is not text but {type(cell).__name__} ({cell!r:.80}). Pass "
                f"another {asked.column} or correct it"
            )
        check_characters(cell, repr(column), partial(table.place, row))
    return list(cells)


def _lines(path: Path) -> list[str]:
    return lines_of(decode(path)[0])
