"""Read and write CSV files with one row per value of a dataclass; errors name the line and the column."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from gradgate.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")

MaybeEmpty = Annotated[str, BeforeValidator(lambda cell: cell or "")]
"""Text in a column whose cells may be empty."""


@dataclass(frozen=True, eq=False)
class RowFile(Generic[Row]):
    """A CSV format for values of a dataclass, with its fields as the columns.

    None is written as an empty cell. An empty cell is read as the default of its column, or else as None.

    Attributes:
        row: the dataclass.
        made_by: the command that writes such files, for errors.
        may_lack: columns with defaults that a file need not have.
        check: raises a ValueError for a row whose cells are valid by themselves.
    """

    row: type[Row]
    made_by: str
    may_lack: Collection[str] = ()
    check: Callable[[Row], None] = lambda row: None

    def write(self, rows: Sequence[Row], file: Path) -> None:
        """Write the rows. Numbers have all their digits, so that reading them gives the same floats."""
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, [each.name for each in fields(self.row)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)

    def has_columns(self, file: Path) -> bool:
        """Return True if the first line of a file names every column."""
        with file.open(newline="", encoding="utf-8", errors="replace") as stream:
            return {*next(csv.reader(stream), [])} >= {each.name for each in fields(self.row)}

    def read(self, file: Path) -> list[Row]:
        """Read the rows of a file.

        Raises:
            DataError: if the file cannot be read, a column is absent or a line is damaged; the line is named.
        """
        adapter = TypeAdapter(self.row)
        try:
            with file.open(newline="", encoding="utf-8") as stream:
                reader = csv.DictReader(stream)
                existing = {*(reader.fieldnames or ()), *self.may_lack}
                absent = [each.name for each in fields(self.row) if each.name not in existing]
                if absent:
                    raise DataError(f"{file} has no column {', '.join(absent)}. Expected what '{self.made_by}' writes.")
                return [self._row(line, adapter, f"{file}, line {number}") for number, line in enumerate(reader, 2)]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(
                f"Cannot read {file}: {error}. Expected a CSV file as '{self.made_by}' writes it; check the path."
            ) from None

    def _row(self, line: dict[str, str | None], adapter: TypeAdapter[Row], place: str) -> Row:
        optional = {each.name for each in fields(self.row) if each.default is not MISSING}
        cells: dict[str, Any] = {name: cell or None for name, cell in line.items() if cell or name not in optional}
        try:
            row = adapter.validate_python(cells)
            self.check(row)
        except ValidationError as error:  # a ValueError, too
            first = error.errors()[0]
            found = f"{'.'.join(map(str, first['loc']))} is {first['input']!r}: {first['msg']}"
        except ValueError as error:
            found = str(error)
        else:
            return row
        raise DataError(f"{place}: {found}. Expected a row as '{self.made_by}' writes it.")
