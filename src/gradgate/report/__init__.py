"""A study folder turned into tables, figures, one page, and a table for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gradgate.files import write_bytes, write_text
from gradgate.report.export import to_csv, to_latex, to_markdown, to_terminal
from gradgate.report.findings import find
from gradgate.report.page import PAGE, render_page
from gradgate.report.sections import all_tables, draw_figures, gather
from gradgate.report.sections.freezing import answer, find_curve
from gradgate.report.sections.gains import gain_table
from gradgate.report.sections.scores import main_table
from gradgate.report.verdict import cautions, over_parts, verdict
from gradgate.study.pooled import read_whole
from gradgate.study.study_file import StudyResults

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

    A study of several tasks or models gets one for each of its parts too, in their folders. Equal studies give equal
    bytes. A page is one file that loads nothing else.

    Raises:
        RunError: if the folder holds no study, ``study.json`` is damaged, or a file cannot be written.
    """
    results = read_whole(folder)
    for _, part in results.parts:
        _write(part)
    return _write(results)


def _write(results: StudyResults) -> Report:
    folder = results.folder
    contents = gather(find(results))
    tables, drawings = all_tables(contents), draw_figures(contents)
    table_files = {
        folder / "tables" / f"{table.name}.{ending}": writer(table)
        for table in tables
        for ending, writer in _WRITERS.items()
    }
    pictures = {folder / "figures" / f"{drawing.name}.svg": drawing.svg for drawing in drawings}
    prints = {folder / "figures" / f"{drawing.name}.pdf": drawing.pdf for drawing in drawings}
    html = folder / PAGE
    for path, text in {**table_files, **pictures, html: render_page(contents, tables, drawings)}.items():
        write_text(path, text)
    for path, content in prints.items():
        write_bytes(path, content)
    return Report(html, tuple(table_files), (*pictures, *prints))


def render_table(folder: Path, console: Console) -> None:
    """Print the answer, the main table and its cautions: the same numbers as in the report."""
    results = read_whole(folder)
    findings = find(results)
    table = main_table(findings)
    has_adapters = any(adapter is not None for adapter in results.study.adapters)
    # Of a study that was made before it was counted, what is stored is not known.
    columns = _WITH_ADAPTERS if has_adapters and any(c.key == "stored" for c in table.columns) else _TERMINAL
    console.print(to_terminal(table, columns, console.width))
    if results.parts:
        scores = gain_table(findings)
        console.print(to_terminal(scores, tuple(column.key for column in scores.columns), console.width))
    console.print(Text(verdict(findings), style="bold"))
    curve = find_curve(findings)
    for remark in (over_parts(findings), answer(curve) if curve else None):
        if remark:
            console.print(Text(remark))
    for note in cautions(findings):
        console.print(Text(f"- {note}"))
