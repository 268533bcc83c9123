"""The default page answers a user's question; what only a paper needs is in the files, or asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gradgate import Study
from gradgate.report import ComposedReport, write_report
from gradgate.report.sections.base import Section
from gradgate.report.sections.from_papers.epoch_curves import EpochCurvesSection
from gradgate.report.sections.from_papers.freezing import FreezingSection
from gradgate.report.sections.from_papers.losses import LossesSection
from gradgate.report.sections.from_papers.stability import StabilitySection
from gradgate.report.sections.from_papers.t_statistics import TStatisticsSection
from gradgate.study.results import read_study
from support.command_line import Command
from support.study_folder import write_study

SCORES = {"full": [0.68, 0.70, 0.72], "gradual:every=40": [0.70, 0.73, 0.74]}
PAPER = ("t-statistics", "losses", "evaluations")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", scores=SCORES, tests=("en", "de"))


def tables_on(page: Path) -> list[str]:
    return re.findall(r'id="table-([\w-]+)"', page.read_text(encoding="utf-8"))


def shown(folder: Path, *, all_sections: bool = False) -> list[type[Section]]:
    report = ComposedReport(ComposedReport.of(read_study(folder)).study, all_sections)
    return [type(section) for section in report.shown]


def sweep(folder: Path, methods: Sequence[str]) -> Path:
    return write_study(folder, methods=methods, scores={method: [0.7, 0.72, 0.71] for method in methods})


def test_sections_of_papers_are_files_only(study: Path, draw_only: Any) -> None:
    draw_only(TStatisticsSection, LossesSection, StabilitySection)
    written = write_report(study)
    assert not {*tables_on(written.html)} & {*PAPER}
    names = {path.name for path in (*written.tables, *written.figures)}
    assert names >= {f"{name}.{kind}" for name in PAPER for kind in ("csv", "svg")}
    page = written.html.read_text(encoding="utf-8")
    assert all(f'href="tables/{name}.csv"' in page for name in PAPER)


def test_all_sections_bring_them_back(study: Path, draw_only: Any) -> None:
    draw_only()
    short, long = write_report(study), tables_on(write_report(study, all_sections=True).html)
    assert {*long} == {path.stem for path in short.tables}


@pytest.mark.slow
def test_files_are_the_same_either_way(study: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in (*written.tables, *written.figures)}

    written = write_report(study)
    before = contents()
    written = write_report(study, all_sections=True)
    assert contents() == before


def test_the_command_takes_the_flag(study: Path, draw_only: Any, command: Command) -> None:
    draw_only()
    assert command("report", str(study), "--all-sections").code == 0
    assert {*tables_on(study / "report.html")} >= {*PAPER}
    assert command("report", str(study)).code == 0
    assert not {*tables_on(study / "report.html")} & {*PAPER}


def test_python_takes_the_flag(study: Path, draw_only: Any) -> None:
    draw_only()
    assert {*tables_on(Study(study).report(all_sections=True))} >= {*PAPER}
    assert not {*tables_on(Study(study).report())} & {*PAPER}
    assert {*PAPER} <= {*Study(study).tables}


def test_a_sweep_asks_for_its_curve(tmp_path: Path) -> None:
    two = sweep(tmp_path / "two", ("full", "freeze:layers=1", "head"))
    three = sweep(tmp_path / "three", ("full", "freeze:layers=0", "freeze:layers=1", "freeze:layers=2"))
    assert FreezingSection not in shown(two)
    assert FreezingSection in shown(two, all_sections=True)
    assert FreezingSection in shown(three)


def test_tests_each_epoch_ask_for_their_curves(study: Path) -> None:
    assert EpochCurvesSection not in shown(study, all_sections=True)
    for file in study.glob("runs/*/seed-*/history.jsonl"):
        line = {"step": 40, "epoch": 1.0, "split": "en", "loss": 0.5, "macro_f1": 0.6}
        file.write_text(f"{file.read_text()}{json.dumps(line)}\n")
    assert EpochCurvesSection in shown(study)


def test_long_tables_of_raw_numbers_are_files(tmp_path: Path, draw_only: Any) -> None:
    draw_only()
    scores = {"full": [0.70 + seed / 100 for seed in range(11)]}
    few = write_report(write_study(tmp_path / "few", methods=("full",), scores={"full": [0.7, 0.71, 0.72]}))
    many = write_report(write_study(tmp_path / "many", methods=("full",), seeds=range(11), scores=scores))
    assert "seeds" in tables_on(few.html)
    assert "seeds" not in tables_on(many.html)
    assert "metrics" in tables_on(many.html)


def test_a_run_has_no_section_of_papers(tmp_path: Path) -> None:
    study = write_study(tmp_path, methods=("full",), seeds=(0,), scores={"full": [0.7]})
    assert not {*shown(study)} & {LossesSection, StabilitySection, TStatisticsSection}


def test_each_score_is_summarized_once(study: Path, draw_only: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradgate.report import study_summary

    draw_only()
    summarized: list[tuple[float, ...]] = []
    original = study_summary.summarize
    monkeypatch.setattr(
        study_summary, "summarize", lambda values: (summarized.append(tuple(values)), original(values))[1]
    )
    summary = study_summary.summarize_study(read_study(study))
    report = ComposedReport(summary, all_sections=True)
    report.write(study)
    scores = [values for values in summarized if values]
    # Two methods, on en, de and dev, in two metrics.
    assert len(scores) == 2 * 3 * 2
