"""Show runs and studies in a notebook, as text, as data frames and as a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.errors import GradgateError, UsageError, nearest
from gradgate.places import typed_path

if TYPE_CHECKING:
    from rich.console import Console

    from gradgate.report import ComposedReport
    from gradgate.report.drawing import Drawing
    from gradgate.report.table import Table
    from gradgate.study.results import StudyResults

PAGE = "report.html"


class MissingPandasError(GradgateError, ImportError):
    """A data frame was asked for, and pandas is not installed."""


class ResultView(ABC):
    """Results in a folder, read when they are first asked for.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = typed_path(path)

    @abstractmethod
    def _read(self) -> StudyResults:
        """Read the content of the folder."""

    @abstractmethod
    def _heading(self) -> str:
        """Return a one-line description."""

    @cached_property
    def _report(self) -> ComposedReport:
        from gradgate.report import ComposedReport  # with matplotlib

        return ComposedReport.of(self._read())

    @property
    def answer(self) -> str:
        """The answer in a sentence, as it leads the report."""
        return self._report.answer[0]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names that :meth:`table` takes."""
        return tuple(table.name for table in self._report.tables)

    def table(self, name: str = "main") -> Any:
        """Return a table of the report with full-precision numbers, as a ``pandas.DataFrame``.

        Args:
            name: one of :attr:`tables`.

        Raises:
            UsageError: if the report has no such table.
            MissingPandasError: if pandas is not installed.
        """
        found = {table.name: table for table in self._report.tables}
        if name not in found:
            raise UsageError(
                f"There is no table {name!r}.{nearest(name, found)} Expected one of {', '.join(found)}: see .tables."
            )
        return data_frame(found[name].records)

    @property
    def figures(self) -> Mapping[str, Drawing]:
        """The figures of the report by their names. Each shows itself in a notebook; ``.svg`` and ``.pdf`` hold it."""
        return {drawing.name: drawing for drawing in self._report.drawings}

    def report(self, path: str | PathLike[str] | None = None, *, all_sections: bool = False) -> Path:
        """Write the report: one page that loads nothing else, and next to it ``tables/`` and ``figures/``.

        Args:
            path: a folder, or a page that ends with ``.html``; by default the folder of the results.
            all_sections: show the sections that only a paper needs, too, and long tables of raw numbers.

        Returns:
            The page.

        Raises:
            RunError: if a file cannot be written.
        """
        from gradgate.report import ComposedReport, write_whole

        target = self.path if path is None else typed_path(path)
        is_page = target.suffix.lower() in (".html", ".htm")
        folder, page = (target.parent, target.name) if is_page else (target, PAGE)
        report = ComposedReport(self._report.study, all_sections) if all_sections else self._report
        return write_whole(report, folder, page).html

    def show(self, console: Console | None = None) -> None:
        """Print the main table, the answer and its cautions.

        Args:
            console: of rich; by default standard output.
        """
        from gradgate.console import console as standard_output
        from gradgate.report import print_report

        print_report(self._report, console or standard_output)

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.answer}"

    def _repr_html_(self) -> str:
        from gradgate.report.fragment import Headline, render_fragment

        headline = Headline(self._heading(), self.answer, self._remarks(), self._lines())
        return render_fragment(headline, self._printed(), self._report.shown_drawings)

    def _printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the tables to show, each with the keys of its columns."""
        return self._report.printed

    def _remarks(self) -> list[str]:
        """Return sentences that add to the answer."""
        return [*self._report.answer[1], *self._report.cautions]

    def _lines(self) -> list[str]:
        """Return code or a command to show with the answer."""
        return []


def data_frame(records: Any) -> Any:
    """Return records as a ``pandas.DataFrame``; raise MissingPandasError without pandas."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise MissingPandasError(
            "Tables are pandas data frames, and pandas is not installed. Install it with 'pip install pandas'; "
            ".report(FOLDER) writes the same tables as CSV files without it."
        ) from None
    return DataFrame.from_records(list(records))
