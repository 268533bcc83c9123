"""Read and write CSV files with one row per value of a dataclass; errors name the line and the column."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import DataError, fault_with_place
from gradgate.files import append_text, read_bytes, write_text
from gradgate.printable import cell_text, csv_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_STANDARD_OUTPUT = Path("/dev/stdout")
Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True, eq=False)
class CsvRows(Generic[Row]):
    """A CSV format with one row per value of a dataclass and its fields as the columns.

    Numbers are written with all their digits, None as an empty cell. An empty cell is read as the default of its
    column, or else as None.

    Attributes:
        row: the dataclass.
        made_by: the command that writes such files, for errors.
        may_lack: columns with defaults that a file may lack.
        check: raises a ValueError for a row whose cells are valid by themselves.
    """

    row: type[Row]
    made_by: str
    may_lack: Collection[str] = ()
    check: Callable[[Row], None] = lambda row: None

    def text(self, rows: Iterable[Row]) -> str:
        """Return the text of a file with these rows."""
        return csv_text([self._columns, *(asdict(row).values() for row in rows)])

    def write(self, file: Path, rows: Iterable[Row]) -> None:
        """Write a file; on failure, it is as it was before.

        Raises:
            RunError: if it cannot be written.
        """
        text = self.text(rows)
        if file == _STANDARD_OUTPUT:
            sys.stdout.write(text)
        else:
            write_text(file, text)

    def append(self, file: Path, rows: Iterable[Row]) -> None:
        """Add rows to a file, which is created if absent; RunError if it cannot be written."""
        text = csv_text(asdict(row).values() for row in rows)
        append_text(file, text if file.is_file() else csv_text([self._columns]) + text)

    def read(self, file: Path) -> list[Row]:
        """Read the rows of a file.

        Raises:
            DataError: if the file cannot be read, a column is absent or a line is damaged; the line is named.
        """
        return self._parse(file, self._text(file))

    def resume(self, file: Path) -> list[Row]:
        """Read the rows so far; none without a file. A last line that was cut off is left out.

        Raises:
            DataError: as :meth:`read`.
        """
        if not file.is_file():
            return []
        text = self._text(file)
        whole = text[: text.rfind("\n") + 1]
        return self._parse(file, whole) if whole else []

    def has_columns(self, file: Path) -> bool:
        """Return True if the first line of a file names every column."""
        with file.open(newline="", encoding="utf-8", errors="replace") as stream:
            return {*next(csv.reader(stream), [])} >= {*self._columns}

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.row))

    def _text(self, file: Path) -> str:
        try:
            return read_bytes(file).decode("utf-8")
        except (OSError, ValueError) as error:
            raise DataError(
                f"Cannot read {file}: {error}. Expected a CSV file as '{self.made_by}' writes it; check the path."
            ) from None

    def _parse(self, file: Path, text: str) -> list[Row]:
        reader = csv.reader(io.StringIO(text, newline=""))
        adapter, header = TypeAdapter(self.row), next(reader, [])
        absent = [name for name in self._columns if name not in (*header, *self.may_lack)]
        if absent:
            raise DataError(f"{file} has no column {', '.join(absent)}. Expected what '{self.made_by}' writes.")
        try:
            return [self._row(adapter, header, cells) for cells in reader if cells]
        except (ValueError, csv.Error) as error:
            where = f"{file}, line {reader.line_num}"
            raise DataError(f"{where}: {_problem(error)}. Expected a row as '{self.made_by}' writes it.") from None

    def _row(self, adapter: TypeAdapter[Row], header: list[str], cells: list[str]) -> Row:
        if len(cells) != len(header):
            raise ValueError(f"it has {len(cells)} cells; expected {len(header)}")
        optional = {field.name for field in fields(self.row) if field.default is not MISSING}
        values = dict(zip(header, map(cell_text, cells), strict=True))
        known = {name: cell or None for name, cell in values.items() if cell or name not in optional}
        row = adapter.validate_python(known)
        self.check(row)
        return row


def _problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return fault_with_place(error.errors()[0])
