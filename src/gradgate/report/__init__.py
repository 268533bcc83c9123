"""A study folder turned into tables, figures, one page, and a table for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gradgate.report.figures import draw_figures
from gradgate.report.findings import find
from gradgate.report.freeze_table import freeze_table
from gradgate.report.freezing import answer, find_curve
from gradgate.report.languages import language_table
from gradgate.report.markup import to_csv, to_latex, to_markdown, to_terminal
from gradgate.report.page import render_page
from gradgate.report.tables import all_tables, main_table
from gradgate.report.verdict import cautions, verdict
from gradgate.study.results import StudyResults, read_study
from gradgate.training.folder import write_text

__all__ = ["Report", "render_table", "write_report"]

_WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
_TERMINAL = ("method", "score", "difference", "p", "seeds", "step", "share")


@dataclass(frozen=True)
class Report:
    """The files of a report."""

    html: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


def write_report(folder: Path) -> Report:
    """Write ``report.html``, ``tables/`` (.csv, .md, .tex) and ``figures/`` (.svg) into a study folder.

    Equal studies give equal bytes. The page is one file that loads nothing else.

    Raises:
        RunError: if the folder holds no study, ``study.json`` is damaged, or a file cannot be written.
    """
    findings = find(read_study(folder))
    curve = find_curve(findings)
    tables = all_tables(findings)
    if findings.results.averages:
        tables.insert(1, language_table(findings))
    if curve:
        tables.insert(1, freeze_table(curve))
    drawings, problems = draw_figures(findings, curve)
    table_files = {
        folder / "tables" / f"{table.name}.{ending}": writer(table)
        for table in tables
        for ending, writer in _WRITERS.items()
    }
    figure_files = {folder / "figures" / f"{drawing.name}.svg": drawing.svg for drawing in drawings}
    html = folder / "report.html"
    page = render_page(findings, tables, drawings, problems, curve)
    for path, text in {**table_files, **figure_files, html: page}.items():
        write_text(path, text)
    return Report(html, tuple(table_files), tuple(figure_files))


def render_table(results: StudyResults, console: Console) -> None:
    """Print the answer, the main table and its cautions: the same numbers as in the report."""
    findings = find(results)
    console.print(to_terminal(main_table(findings), _TERMINAL, console.width))
    console.print(Text(verdict(findings), style="bold"))
    curve = find_curve(findings)
    if curve:
        console.print(Text(answer(curve)))
    for note in cautions(findings):
        console.print(Text(f"- {note}"))
