"""The report of a study folder as tests read it: its page, its tables, and what the terminal shows."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rich.console import Console

from gradgate.report import ComposedReport, Report, print_report, write_report
from gradgate.report.sections import find_sections
from gradgate.report.study_summary import summarize_study
from gradgate.report.table import Table
from gradgate.study.pooled import read_pooled
from gradgate.study.results import read_study
from support.study_folder import write_study


class Page(HTMLParser):
    """What a browser would see: tags with attributes, ids, and text outside style and script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._hidden = 0
        self.feed(html)

    @property
    def ids(self) -> list[str | None]:
        """Of all elements, in order."""
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]

    @property
    def links(self) -> list[str]:
        """The addresses that it leads to."""
        return [attrs["href"] or "" for tag, attrs in self.tags if tag == "a"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._hidden else data


def report(folder: Path, **study: Any) -> tuple[Report, str]:
    """Write a study and its report; return the report's files and the page."""
    written = write_report(write_study(folder, **study))
    return written, written.html.read_text(encoding="utf-8")


def printed(folder: Path, width: int = 120, *, all_sections: bool = False) -> str:
    """Return what a terminal shows of the report of a study folder."""
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=False)
    print_report(ComposedReport(summarize_study(read_pooled(folder)), all_sections), console)
    return console.export_text()


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    """Read a table of a report from its CSV file."""
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tables_of(folder: Path, **study: Any) -> dict[str, Table]:
    """Write a study, and return the tables of its report by name."""
    sections = find_sections(summarize_study(read_study(write_study(folder, **study))))
    return {table.name: table for section in sections for table in section.tables()}
