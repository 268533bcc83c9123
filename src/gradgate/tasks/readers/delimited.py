"""Read comma and tab separated values as spreadsheets and pandas write them, with the line of every fault."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable, noted, unnamed
from gradgate.tasks.types import FileFormat

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LONGEST_FIELD = 2**31 - 1
_SEP_LINE = re.compile(r"sep=(.)\r?(\n|$)", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_SPACED_QUOTE = re.compile(r'(^|[,;\t|]) +"', re.MULTILINE)
_SPACES = "spaces before quotes are left out"
_ENCLOSED = "quotes enclose fields, as in a csv file"
_ESCAPED = "a backslash before a quote makes it part of the text"
_OTHER_BACKSLASH = re.compile(r'\\(?!")')
_SPACED = re.compile(r'"[^"\n]*"( "[^"\n]*")+')
_OF_R = "the first cell of each row is its number, as R writes row names: the header has no name for it"

Records = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class _Layout:
    """The form of the lines of a file, from which records are read.

    Attributes:
        delimiter: between fields.
        quoting: whether ``"`` encloses fields.
        spaces: whether spaces after a delimiter are dropped.
        escaped: whether a backslash stands before quotes within fields, in place of a second quote.
        most: records to read; None for all.
    """

    delimiter: str
    quoting: bool
    spaces: bool = False
    escaped: bool = False
    most: int | None = None


def read_delimited(path: Path, text: str, fmt: FileFormat, kind: str, most: int | None = None) -> SourceTable:
    """Read rows of strings.

    A first line ``sep=;`` names the separator. Comment lines above the header are skipped, columns without a name get
    one or are left out if they are empty, and spaces before quotes are dropped if quotes enclose nothing otherwise.

    Args:
        path, text: the file.
        fmt: the format that the task names.
        kind: ``csv`` or ``tsv``.
        most: rows to read; None for all.

    Raises:
        DataError: a line with another number of fields than the header, quotes that never close, or a name that
            occurs twice.
    """
    text, delimiter, notes = _beginning(path, text, fmt)
    quoting = kind == "csv" if fmt.quoting is None else fmt.quoting
    chosen = delimiter or ("\t" if kind == "tsv" else _delimiter(text) if fmt.header else ",")
    layout = _Layout(chosen, quoting, most=None if most is None else most + fmt.header)
    try:
        table = _table(path, text, fmt, layout)
    except DataError as error:
        table = _read_otherwise(path, text, fmt, layout, error)
    else:
        if quoting and fmt.quoting is None and _has_spaced_quotes(table) and _SPACED_QUOTE.search(text):
            table = noted(_table(path, text, fmt, replace(layout, spaces=True)), _SPACES)
        elif not quoting and fmt.quoting is None and _are_enclosed(table):
            table = noted(_table(path, text, fmt, replace(layout, quoting=True)), _ENCLOSED)
        if quoting and fmt.quoting is None and (doubt := _doubtful_cell(table, layout.delimiter)):
            table = noted(table, doubt)
    return replace(table, notes=(*notes, *table.notes))


def _read_otherwise(path: Path, text: str, fmt: FileFormat, layout: _Layout, error: DataError) -> SourceTable:
    """Return the rows with quotes read in another way; raise the error of the first way if that does not fit either."""
    for other, note in _other_quotings(text, fmt, layout):
        try:
            table = _table(path, text, fmt, other)
        except DataError:
            continue
        if other.spaces or not _swallows(table, other):
            return noted(table, note)
    raise error from None


def _beginning(path: Path, text: str, fmt: FileFormat) -> tuple[str, str | None, list[str]]:
    """Return the text with lines above the header emptied, the separator that the first names, and notes."""
    if not fmt.header:
        return text, None, []
    found = _SEP_LINE.match(text)
    if found:
        rest = text[found.end() - len(found[2]) :]
        return rest, found[1], [f"the first line of {path.name} sets the delimiter {found[1]!r}"]
    lines: list[str] = []
    begin = 0
    while text.startswith(("#", "\n", "\r\n"), begin):
        end = text.find("\n", begin)
        if end < 0:
            break
        lines.append(text[begin:end].rstrip("\r"))
        begin = end + 1
    comments = [line for line in lines if line]
    end = text.find("\n", begin)
    header = text[begin : end if end >= 0 else len(text)]
    delimiter = _delimiter(header)
    if not comments or not all(line.startswith("#") for line in comments):
        return text, None, []
    last, header = (_QUOTED.sub("", line) for line in (comments[-1], header))
    if not last.startswith("# ") and 0 < last.count(delimiter) == header.count(delimiter):
        return text, None, []  # the header itself begins with #
    return "\n" * len(lines) + text[begin:], None, [f"{len(comments)} comment lines above the header are skipped"]


def _table(path: Path, text: str, fmt: FileFormat, layout: _Layout) -> SourceTable:
    records = list(islice(_records(path, text, layout), layout.most))
    names = fmt.columns
    notes: tuple[str, ...] = ()
    if names is None:
        if not records:
            return SourceTable(str(path), {})
        names, records = _names(records.pop(0)[1], records)
        if not fmt.extra_columns and _has_row_names(names, records):
            names, notes = (unnamed(1), *names), (_OF_R,)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"{path}: the column name {twice[0]!r} occurs twice; give each column its own name")
    rows, lines = [], []
    for line, row in records:
        rows.append(row if len(row) == len(names) else _fitted(path, line, row, names, fmt, layout))
        lines.append(line)
    cells: Sequence[Sequence[str]] = list(zip(*rows, strict=True)) or [()] * len(names)
    return SourceTable(str(path), dict(zip(names, cells, strict=True)), lines, notes=notes)


def _has_row_names(names: Sequence[str], records: Records) -> bool:
    """Return True if each row begins with a number of its own, for which the header has no name."""
    first = {row[0].strip('"') for _, row in records if len(row) == len(names) + 1 and row[-1].strip()}
    return 1 < len(first) == len(records) and all(map(str.isdecimal, first))


def _names(header: Sequence[str], records: Records) -> tuple[tuple[str, ...], Records]:
    """Return the names of columns; empty ones at the end go if nothing stands below them, others are numbered."""
    names = [name.strip() for name in header]
    width = len(names)
    while width > 1 and not names[width - 1]:
        if any(len(row) >= width and row[width - 1].strip() for _, row in records):
            break
        width -= 1
    if width < len(names):
        empty = len(names)
        records = [(line, row[:width] if width < len(row) <= empty else row) for line, row in records]
    return tuple(name or unnamed(place) for place, name in enumerate(names[:width], 1)), records


def _fitted(path: Path, line: int, row: list[str], names: Sequence[str], fmt: FileFormat, layout: _Layout) -> list[str]:
    """Return a row as long as there are columns, if it differs in empty cells alone; raise DataError for others."""
    width = len(names)
    if len(row) > width and (fmt.extra_columns or not any(map(str.strip, row[width:]))):
        return row[:width]
    numbered = [name for place, name in enumerate(names, 1) if name == unnamed(place)]
    if len(row) < width and fmt.columns is None and width - len(row) <= len(numbered) and names[len(row)] in numbered:
        return [*row, *[""] * (width - len(row))]
    raise DataError(_wrong_width(path, line, row, names, layout))


def _delimiter(text: str) -> str:
    """Return the separator in the header of a csv file: the most frequent of those in use, commas first."""
    header = _QUOTED.sub("", next((line for line in text.split("\n", 50) if line.strip()), ""))
    return max(DELIMITERS, key=header.count)


def _records(path: Path, text: str, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    if layout.quoting:
        yield from _quoted(path, text, layout)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line := line.rstrip("\r"):
            yield number, line.split(layout.delimiter)


def _quoted(path: Path, text: str, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=layout.delimiter,
        strict=True,
        skipinitialspace=layout.spaces,
        doublequote=not layout.escaped,
        escapechar="\\" if layout.escaped else None,
    )
    begins = 1
    before = csv.field_size_limit(_LONGEST_FIELD)  # a global of the csv module: put back below
    try:
        for row in reader:
            if row:
                yield begins, row
            begins = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{begins} is malformed: {error}. {_remedy(text, begins, reader.line_num)}") from error
    finally:
        csv.field_size_limit(before)


def _remedy(text: str, first: int, last: int) -> str:
    """Return what to do about quotes in lines that cannot be read."""
    lines = text.split("\n", last)[first - 1 : last]
    if any('\\"' in line for line in lines):
        return (
            "A backslash stands before a quote, as Spark and MySQL write it, which is read only in a file without "
            'other backslashes or faults. Export it with doubled quotes: `.option("escape", \'"\')` in Spark, '
            "`ESCAPED BY '\"'` in MySQL, `doublequote=True` in Python"
        )
    if lines and _SPACED.fullmatch(lines[0].rstrip("\r")):
        return 'Spaces separate its fields, as R\'s write.table does by default: write it with sep="," or write.csv'
    return "If quotes are ordinary characters in this file, set `format: {quoting: false}`"


def _other_quotings(text: str, fmt: FileFormat, layout: _Layout) -> Iterator[tuple[_Layout, str]]:
    """Yield other ways to read the quotes of a file that cannot be read as usual, with a note on each."""
    if fmt.quoting is not None or '"' not in text or layout.most is not None:
        return
    if layout.quoting and _SPACED_QUOTE.search(text):
        yield replace(layout, spaces=True), _SPACES
    if layout.quoting and '\\"' in text and not _OTHER_BACKSLASH.search(text):
        yield replace(layout, escaped=True), _ESCAPED
    if not layout.quoting and "\n" in text:
        yield replace(layout, quoting=True), _ENCLOSED


def _swallows(table: SourceTable, layout: _Layout) -> bool:
    """Return True if a cell holds whole rows, because a lone quote opened it, or no cell shows that quotes enclose."""
    cells = [cell for column in table.columns.values() for cell in column if "\n" in cell]
    between = len(table.columns) - 1
    lone = not cells and not layout.escaped
    return lone or any(line.count(layout.delimiter) >= between for cell in cells for line in cell.split("\n"))


def _doubtful_cell(table: SourceTable, delimiter: str) -> str:
    """Return a note on the first cell over several lines of which one ends like a row; empty without one."""
    last = set(list(table.columns.values())[-1]) if len(table.columns) > 1 else set()
    for name, cells in table.columns.items():
        for row, cell in enumerate(cells):
            ends = (line.rsplit(delimiter, 1) for line in cell.split("\n")[:-1]) if "\n" in cell else ()
            if any(len(end) > 1 and end[1].strip('"\r ') in last for end in ends):
                lines = cell.count("\n") + 1
                return (
                    f"{table.place(row)}: the cell of {name!r} spans {lines} lines, some of which end like rows. If a "
                    f"lone quote opens it, set `format: {{quoting: false}}` in a task.yaml, or double the quote"
                )
    return ""


def _are_enclosed(table: SourceTable) -> bool:
    """Return True if quotes enclose every field that has one, and names, as R writes them, or doubled quotes, too."""
    fields = [cell for column in (table.columns, *table.columns.values()) for cell in column if '"' in cell]
    inner = [field[1:-1] for field in fields if len(field) > 1 and field[0] == field[-1] == '"']
    if not inner or len(inner) < len(fields) or any('"' in text.replace('""', "") for text in inner):
        return False
    return any('""' in text for text in inner) or all(name[:1] == '"' for name in table.columns if name != unnamed(1))


def _has_spaced_quotes(table: SourceTable) -> bool:
    """Return True if most cells of a column begin with spaces and a quote."""
    for cells in table.columns.values():
        quoted = sum(cell[:1] == " " and cell.lstrip(" ")[:1] == '"' for cell in cells)
        if quoted and 2 * quoted >= len(cells):
            return True
    return False


def _wrong_width(path: Path, line: int, row: list[str], names: Sequence[str], layout: _Layout) -> str:
    hint = ""
    if not layout.quoting and any(cell.startswith('"') for cell in row):
        hint = ". Quotes are read as ordinary characters; if they enclose fields, set `format: {quoting: true}`"
    elif len(row) == 1:
        hint = f". The columns are split at {DELIMITERS.get(layout.delimiter, repr(layout.delimiter))}"
        hint += "; is the file of another type?"
    elif any("\r" in cell for cell in (*names, *row)):
        hint = ". Some lines end in a carriage return alone: write the file with one kind of line end"
    elif any(cell.endswith("\\") for cell in row[:-1]):
        hint = ". A backslash stands before a separator, as MySQL writes it: export with OPTIONALLY ENCLOSED BY '\"'"
    elif len(row) > len(names):
        hint = f". A field with {DELIMITERS.get(layout.delimiter, repr(layout.delimiter))} in it needs quotes around it"
        if len(row) == len(names) + 1:
            hint += "; if the first cell is a row name of R, write the file with row.names=FALSE"
    return f"{path}:{line} has {len(row)} columns, expected {len(names)} ({', '.join(names)}){hint}"
