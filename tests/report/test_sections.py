"""Sections: what one gives is on the page, in the files and on the terminal, with nothing else to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradgate.report import sections, write_report
from gradgate.report.drawing import Drawing, finish, styled
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary, summarize_study
from gradgate.report.table import Column, Entry, Table
from gradgate.study.results import read_study
from support.study_folder import write_study
from support.written_report import printed

SCORES = {"full": [0.68, 0.70, 0.72], "gradual:every=40": [0.70, 0.73, 0.74]}


@dataclass(frozen=True)
class WeatherSection(Section):
    """A subject that no report has."""

    @classmethod
    def find(cls, findings: StudySummary) -> WeatherSection:
        return cls(findings)

    def tables(self) -> list[Table]:
        row = (Entry("Berlin", "Berlin"), Entry("21", 21.25))
        columns = (Column("city", "City", numeric=False), Column("degrees", "Degrees"))
        return [Table("weather", "Weather", columns, (row,), ({"city": "Berlin", "degrees": 21.25},))]

    def drawings(self) -> list[Drawing]:
        with styled(2.0) as figure:
            figure.add_subplot().plot([1, 2])
            return [finish(figure, "weather", "Weather", "Days.", "Berlin 21.", "weather")]

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        return [(table, ("city", "degrees")) for table in self.tables()]

    def remarks(self) -> list[str]:
        return ["The sun shone."]

    def notes(self) -> list[str]:
        return ["Read off a thermometer."]

    def cautions(self) -> list[str]:
        return ["One day was missing."]


def test_a_section_reaches_the_page_the_files_and_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_only: Callable[..., None]
) -> None:
    draw_only()
    monkeypatch.setattr(sections, "SECTIONS", (*sections.SECTIONS, WeatherSection))
    write_study(tmp_path, scores=SCORES)
    written = write_report(tmp_path)
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {"weather.csv", "weather.md", "weather.tex", "weather.svg", "weather.pdf"} <= names
    page = written.html.read_text(encoding="utf-8")
    for text in ('id="table-weather"', "The sun shone.", "Read off a thermometer.", "One day was missing."):
        assert text in page
    assert 'href="figures/weather.svg"' in page
    shown = printed(tmp_path, 100)
    for text in ("Berlin", "The sun shone.", "- One day was missing."):
        assert text in shown


def test_figures_and_tables_of_all_sections_have_names_of_their_own(tmp_path: Path) -> None:
    found = sections.find_sections(
        summarize_study(read_study(write_study(tmp_path, scores=SCORES, tests=("en", "de"))))
    )
    for given in ([t.name for s in found for t in s.tables()], [d.name for s in found for d in s.drawings()]):
        assert len(given) == len(set(given))
