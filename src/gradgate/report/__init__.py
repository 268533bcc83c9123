"""A study folder turned into tables, figures, one page, and a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gradgate.files import write_files
from gradgate.report.drawing import Drawing
from gradgate.report.export import to_csv, to_latex, to_markdown, to_terminal
from gradgate.report.findings import find
from gradgate.report.formats import visible
from gradgate.report.page import PAGE, render_page
from gradgate.report.sections import find_answer, find_sections
from gradgate.report.verdict import cautions
from gradgate.study.pooled import read_pooled
from gradgate.study.results import StudyResults

__all__ = ["Report", "render_table", "write_drawings", "write_report"]

_WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


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
    results = read_pooled(folder)
    for _, part in results.parts:
        _write(part)
    return _write(results)


def _write(results: StudyResults) -> Report:
    folder = results.folder
    findings = find(results)
    sections = find_sections(findings)
    tables = [table for section in sections for table in section.tables()]
    drawings = [drawing for section in sections for drawing in section.drawings()]
    exports = {f"{table.name}.{ending}": writer(table) for table in tables for ending, writer in _WRITERS.items()}
    page = render_page(findings, sections, tables, drawings)
    write_files(folder / "tables", exports)
    figures = write_drawings(folder / "figures", drawings)
    write_files(folder, {PAGE: page})
    return Report(folder / PAGE, tuple(folder / "tables" / name for name in exports), figures)


def write_drawings(folder: Path, drawings: Sequence[Drawing]) -> tuple[Path, ...]:
    """Write each figure as SVG and PDF; RunError if one cannot be written."""
    pictures: dict[str, str | bytes] = {f"{drawing.name}.svg": drawing.svg for drawing in drawings}
    pictures |= {f"{drawing.name}.pdf": drawing.pdf for drawing in drawings}
    if pictures:
        write_files(folder, pictures)
    return tuple(folder / name for name in pictures)


def render_table(folder: Path, console: Console) -> None:
    """Print the answer, the main table and its cautions: the same numbers as in the report."""
    findings = find(read_pooled(folder))
    sections = find_sections(findings)
    for section in sections:
        for table, columns in section.printed():
            console.print(to_terminal(table, columns, console.width))
    answer, remarks = find_answer(findings, sections)
    console.print(Text(visible(answer), style="bold"))
    for remark in remarks:
        console.print(Text(visible(remark)))
    for note in (*cautions(findings), *(caution for section in sections for caution in section.cautions())):
        console.print(Text(visible(f"- {note}")))
