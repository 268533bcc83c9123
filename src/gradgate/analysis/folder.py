"""Store one analysis: its settings, and a CSV file that grows point by point, so that a second start resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gradgate.csv_rows import CsvRows
from gradgate.errors import DataError, FolderLockedError, RunError
from gradgate.files import NoLocksError, read_json, refuse_used, take_lock, write_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ANALYSES_FOLDER = "analyses"
Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True)
class AnalysisFolder(Generic[Row]):
    """The folder in which an analysis of a run or study stores what it has measured.

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
        """Return the folder of an analysis in that of the run or study."""
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
        """Lock the folder for writing; a file system without locks lets everyone write.

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
                f"Another process measures {self.name} in {self.path}. Wait until it has ended, or pass another out=."
            )
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink()
            lock.release()

    def claim(self, settings: dict[str, Any]) -> None:
        """Claim the folder for these settings, or check that it has them.

        Raises:
            RunError: if it has other files or rows of other settings, or cannot be written.
        """
        if self.settings_file.is_file():
            existing = read_json(self.settings_file)
            differing = [name for name in {**existing, **settings} if existing.get(name) != settings.get(name)]
            if differing and self.csv_file.is_file():
                listed = ", ".join(
                    f"{key}: {existing.get(key)!r} there, {settings.get(key)!r} here" for key in differing
                )
                raise RunError(
                    f"{self.path} contains what was measured with other settings ({listed}). Pass another out=, or "
                    f"remove the folder to measure again."
                )
        else:
            refuse_used(self.path, f"has no {self.name}")
        write_json(self.settings_file, settings)

    def settings(self) -> dict[str, Any]:
        """Read the settings of the rows; RunError if the file is absent or damaged."""
        return read_json(self.settings_file)

    def read(self) -> list[Row]:
        """Read the rows so far; none without a file. A last line that was cut off is left out.

        Raises:
            RunError: if the file cannot be read or a line is damaged; the line is named.
        """
        try:
            return self._rows.resume(self.csv_file)
        except DataError as error:
            raise RunError(f"{error} Remove {self.path} to measure again.") from None

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows; RunError if they cannot be written."""
        self._rows.append(self.csv_file, rows)

    def keep(self, is_current: Callable[[Row], bool]) -> list[Row]:
        """Remove rows that no longer hold, such as those of runs that were trained again, and return the others.

        Raises:
            RunError: as :meth:`read`, or if the file cannot be written.
        """
        rows = [row for row in self.read() if is_current(row)]
        if self.csv_file.is_file():  # without what was cut off, too
            self._rows.write(self.csv_file, rows)
        return rows

    @property
    def _rows(self) -> CsvRows[Row]:
        return CsvRows(self.row, f"gradgate analyze {self.name}")
