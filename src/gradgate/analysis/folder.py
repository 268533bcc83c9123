"""The files of one analysis: its settings, and a CSV file that grows point by point, so that a second start goes on."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import FolderLockedError, RunError
from gradgate.files import NoLocksError, append_text, in_use, read_bytes, read_json, take_lock, write_json, write_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ANALYSES_FOLDER = "analyses"
Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True)
class AnalysisFolder(Generic[Row]):
    """Where an analysis of a run or study keeps what it has measured.

    Attributes:
        path: of the folder.
        name: of the analysis, and of its CSV file.
        row: a dataclass of numbers and text, whose fields are the columns; an empty cell is None.
    """

    path: Path
    name: str
    row: type[Row]

    @classmethod
    def of(cls, analyzed: Path, name: str, row: type[Row]) -> AnalysisFolder[Row]:
        """The folder of an analysis in that of the run or study."""
        return cls(analyzed / ANALYSES_FOLDER / name, name, row)

    @property
    def csv_file(self) -> Path:
        """The rows, in the order in which they were measured."""
        return self.path / f"{self.name}.csv"

    @property
    def settings_file(self) -> Path:
        """The settings that all rows share."""
        return self.path / "settings.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The right to write here; a file system without locks gives it to all.

        Raises:
            FolderLockedError: if another process has it.
            RunError: if nothing can be written.
        """
        file = self.path / f"{self.name}.lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = take_lock(file)
        except NoLocksError:
            yield
            return
        except OSError as error:
            raise RunError(f"Cannot write {file}: {error.strerror or error}.") from error
        if lock is None:
            raise FolderLockedError(
                f"Another process measures {self.name} in {self.path}. Wait until it has ended, or give another --out."
            )
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink()
            lock.release()

    def claim(self, settings: dict[str, Any]) -> None:
        """Make the folder that of these settings, or check that it is.

        Raises:
            RunError: if it holds other files, or rows of other settings, or cannot be written.
        """
        if self.settings_file.is_file():
            held = read_json(self.settings_file)
            differing = [name for name in {**held, **settings} if held.get(name) != settings.get(name)]
            if differing and self.csv_file.is_file():
                listed = ", ".join(f"{key}: {held.get(key)!r} there, {settings.get(key)!r} here" for key in differing)
                raise RunError(
                    f"{self.path} holds what was measured with other settings ({listed}). Give another --out, or "
                    f"remove the folder to measure anew."
                )
        elif in_use(self.path):
            raise RunError(f"{self.path} is not empty and holds no {self.name}. Give another --out.")
        write_json(self.settings_file, settings)

    def settings(self) -> dict[str, Any]:
        """The settings of the rows; RunError if the file is absent or damaged."""
        return read_json(self.settings_file)

    def read(self) -> list[Row]:
        """The rows so far; none without a file. A last line that was cut off is left out.

        Raises:
            RunError: if the file cannot be read or a line is damaged; the line is named.
        """
        if not self.csv_file.is_file():
            return []
        try:
            text = read_bytes(self.csv_file).decode("utf-8")
        except OSError as error:
            raise RunError(f"Cannot read {self.csv_file}: {error.strerror or error}.") from error
        except ValueError as error:
            raise self._damaged(str(error)) from None
        lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        columns = self._columns
        if lines and tuple(lines[0]) != columns:
            raise self._damaged(f"its columns are {', '.join(lines[0])}; expected {', '.join(columns)}")
        adapter = TypeAdapter(self.row)
        return [self._parsed(adapter, number, line) for number, line in enumerate(lines[1:], 2)]

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows; RunError if they cannot be written."""
        text = _lines(tuple(asdict(row).values()) for row in rows)
        append_text(self.csv_file, text if self.csv_file.is_file() else _lines([self._columns]) + text)

    def keep(self, is_current: Callable[[Row], bool]) -> list[Row]:
        """The rows so far that still hold, such as those of runs that were not trained anew; the others are removed.

        Raises:
            RunError: as :meth:`read`, or if the file cannot be written.
        """
        rows = [row for row in self.read() if is_current(row)]
        if self.csv_file.is_file():  # without what was cut off, too
            values = (tuple(asdict(row).values()) for row in rows)
            write_text(self.csv_file, _lines([self._columns, *values]))
        return rows

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.row))

    def _parsed(self, adapter: TypeAdapter[Row], number: int, cells: list[str]) -> Row:
        if len(cells) != len(self._columns):
            raise self._damaged(f"line {number} has {len(cells)} cells; expected {len(self._columns)}")
        try:
            return adapter.validate_python({n: cell or None for n, cell in zip(self._columns, cells, strict=True)})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise self._damaged(f"line {number}: {where} is {first['input']!r}; {first['msg']}") from None

    def _damaged(self, what: str) -> RunError:
        return RunError(f"{self.csv_file} is damaged: {what}. Remove {self.path} to measure anew.")


def _lines(rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
