"""Turn a study folder into tables, figures, one page, and a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gradgate.files import write_files
from gradgate.printable import visible
from gradgate.report.drawing import Drawing
from gradgate.report.export import to_csv, to_latex, to_markdown, to_terminal
from gradgate.report.page import PAGE, render_page
from gradgate.report.sections import find_answer, find_cautions, find_sections
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary, summarize_study
from gradgate.report.table import Table
from gradgate.study.pooled import read_pooled
from gradgate.study.results import StudyResults

__all__ = [
    "ComposedReport",
    "Report",
    "print_report",
    "write_drawings",
    "write_report",
    "write_whole",
]

_WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


MOST_IMPORTED_PAGES = 20


@dataclass(frozen=True)
class Report:
    """The files of a report."""

    html: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


@dataclass(frozen=True)
class ComposedReport:
    """The content of a report, before it is written anywhere; tables and figures are made once.

    Attributes:
        all_sections: whether the page and the terminal have the sections that only a paper needs too. The files of
            tables and figures are those of all sections in any case.
    """

    study: StudySummary
    all_sections: bool = False

    @classmethod
    def of(cls, results: StudyResults) -> ComposedReport:
        """Compose the report on some results."""
        return cls(summarize_study(results))

    @cached_property
    def sections(self) -> list[Section]:
        """The sections that the study has data for."""
        return find_sections(self.study)

    @cached_property
    def shown(self) -> list[Section]:
        """The sections on the page and in the terminal: all where the others have no table."""
        found = [section for section in self.sections if self.all_sections or section.on_page]
        return found if any(self._tables[section.name] for section in found) else self.sections

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of all sections; the first one leads."""
        return [table for section in self.sections for table in self._tables[section.name]]

    @cached_property
    def drawings(self) -> list[Drawing]:
        """The figures of all sections."""
        return [drawing for section in self.sections for drawing in self._drawings[section.name]]

    @property
    def shown_tables(self) -> list[Table]:
        """The tables on the page."""
        return [table for section in self.shown for table in self._tables[section.name]]

    @property
    def lead(self) -> Drawing | None:
        """The first figure of the section that leads; None if no section does."""
        return next((each for section in self.shown if section.leads for each in self._drawings[section.name]), None)

    @property
    def shown_drawings(self) -> list[Drawing]:
        """The figures on the page."""
        return [drawing for section in self.shown for drawing in self._drawings[section.name]]

    @property
    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """The tables that stand for the report where there is little room, each with the columns to show."""
        return [each for section in self.shown for each in section.printed()]

    @property
    def answer(self) -> tuple[str, list[str]]:
        """The answer of the study in a sentence, and those that add to it."""
        return find_answer(self.study, self.shown)

    @property
    def cautions(self) -> list[str]:
        """Sentences that limit what the numbers of the report mean."""
        return find_cautions(self.study, self.shown)

    @property
    def parts(self) -> tuple[tuple[str, StudySummary], ...]:
        """Name and summary of each task, model or training size that gets a page of its own.

        Imports may have hundreds, whose pages take minutes; they get them with ``all_sections``.
        """
        is_long = self.study.record.imported is not None and len(self.study.parts) > MOST_IMPORTED_PAGES
        return () if is_long and not self.all_sections else self.study.parts

    def write(self, folder: Path, page: str = PAGE, root: Path | None = None) -> Report:
        """Write the page, ``tables/`` and ``figures/``.

        Args:
            folder: to write into.
            page: the name of the page.
            root: the folder that no link may lead out of; by default ``folder``.

        Raises:
            RunError: if a file cannot be written.
        """
        exports = {f"{table.name}.{end}": writer(table) for table in self.tables for end, writer in _WRITERS.items()}
        further = [table for table in self.tables if table not in self.shown_tables]
        html = render_page(
            self.study, self.shown, self.shown_tables, self.shown_drawings, further, self.parts, self.lead
        )
        root = folder if root is None else root
        write_files(folder / "tables", exports, inside=root)
        figures = write_drawings(folder / "figures", self.drawings, inside=root)
        write_files(folder, {page: html}, inside=root)
        return Report(folder / page, tuple(folder / "tables" / name for name in exports), figures)

    @cached_property
    def _tables(self) -> dict[str, list[Table]]:
        return {section.name: section.tables() for section in self.sections}

    @cached_property
    def _drawings(self) -> dict[str, list[Drawing]]:
        return {section.name: section.drawings() for section in self.sections}


def write_report(folder: Path, *, all_sections: bool = False) -> Report:
    """Write ``report.html``, ``tables/`` (.csv, .md, .tex) and ``figures/`` (.svg, .pdf) into a study folder.

    A study of several tasks or models gets one for each of its parts too, in their folders; an import of more than
    twenty only with ``all_sections``. Equal studies give equal bytes. A page is one file that loads nothing else.

    Args:
        all_sections: show the sections that only a paper needs, too.

    Raises:
        RunError: if the folder holds no study, ``study.json`` is damaged, or a file cannot be written.
    """
    return write_whole(ComposedReport(summarize_study(read_pooled(folder)), all_sections), folder)


def write_whole(report: ComposedReport, folder: Path, page: str = PAGE) -> Report:
    """Write a report, and those of its parts into their places below ``folder``."""
    results = report.study.results
    for _, part in report.parts:
        place = part.results.folder.relative_to(results.folder)
        ComposedReport(part, report.all_sections).write(folder / place, root=folder)
    return report.write(folder, page)


def write_drawings(folder: Path, drawings: Sequence[Drawing], inside: Path | None = None) -> tuple[Path, ...]:
    """Write each figure as SVG and PDF; RunError if one cannot be written, or a link leads out of ``inside``."""
    pictures: dict[str, str | bytes] = {f"{drawing.name}.svg": drawing.svg for drawing in drawings}
    pictures |= {f"{drawing.name}.pdf": drawing.pdf for drawing in drawings}
    if pictures:
        write_files(folder, pictures, inside=inside)
    return tuple(folder / name for name in pictures)


def print_report(report: ComposedReport, console: Console) -> None:
    """Print a report's main table, its answer and its cautions."""
    for table, columns in report.printed:
        console.print(to_terminal(table, columns, console.width))
    answer, remarks = report.answer
    console.print(Text(visible(answer), style="bold"))
    for remark in remarks:
        console.print(Text(visible(remark)))
    for note in report.cautions:
        console.print(Text(visible(f"- {note}")))
