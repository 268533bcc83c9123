"""A study folder turned into tables, figures, one page, and a table for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gradgate.report.contents import all_tables, gather
from gradgate.report.figures import draw_figures
from gradgate.report.findings import find
from gradgate.report.freezing import answer, find_curve
from gradgate.report.main_table import main_table
from gradgate.report.markup import to_csv, to_latex, to_markdown, to_terminal
from gradgate.report.page import render_page
from gradgate.report.verdict import cautions, verdict
from gradgate.study.reading import read_study
from gradgate.study.results import StudyResults
from gradgate.training.folder import write_bytes, write_text

__all__ = ["Report", "render_table", "write_report"]

_WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
_TERMINAL = ("method", "score", "difference", "p", "seeds", "step", "share")
_WITH_ADAPTERS = ("method", "score", "difference", "p", "seeds", "parameters", "stored", "step")


@dataclass(frozen=True)
class Report:
    """The files of a report."""

    html: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


def write_report(folder: Path) -> Report:
    """Write ``report.html``, ``tables/`` (.csv, .md, .tex) and ``figures/`` (.svg, .pdf) into a study folder.

    Equal studies give equal bytes. The page is one file that loads nothing else.

    Raises:
        RunError: if the folder holds no study, ``study.json`` is damaged, or a file cannot be written.
    """
    contents = gather(find(read_study(folder)))
    tables, drawings = all_tables(contents), draw_figures(contents)
    table_files = {
        folder / "tables" / f"{table.name}.{ending}": writer(table)
        for table in tables
        for ending, writer in _WRITERS.items()
    }
    pictures = {folder / "figures" / f"{drawing.name}.svg": drawing.svg for drawing in drawings}
    prints = {folder / "figures" / f"{drawing.name}.pdf": drawing.pdf for drawing in drawings}
    html = folder / "report.html"
    for path, text in {**table_files, **pictures, html: render_page(contents, tables, drawings)}.items():
        write_text(path, text)
    for path, content in prints.items():
        write_bytes(path, content)
    return Report(html, tuple(table_files), (*pictures, *prints))


def render_table(results: StudyResults, console: Console) -> None:
    """Print the answer, the main table and its cautions: the same numbers as in the report."""
    findings = find(results)
    table = main_table(findings)
    has_adapters = any(adapter is not None for adapter in results.study.adapters)
    # Of a study that was made before it was counted, what is stored is not known.
    columns = _WITH_ADAPTERS if has_adapters and any(c.key == "stored" for c in table.columns) else _TERMINAL
    console.print(to_terminal(table, columns, console.width))
    console.print(Text(verdict(findings), style="bold"))
    curve = find_curve(findings)
    if curve:
        console.print(Text(answer(curve)))
    for note in cautions(findings):
        console.print(Text(f"- {note}"))
