"""The report of a study in several languages: zero-shot first, and every language with its gain."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gradgate.report import write_report
from gradgate.report.sections.gains import GainsSection, gain_table
from gradgate.report.sections.main_table import main_table
from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import verdict
from gradgate.study.export import records
from gradgate.study.results import read_study
from gradgate.tasks.languages import average
from support.study_folder import METRIC, write_study

TESTS = ("test.en", "test.de", "test.sw")  # each 0.1 below the one before
LANGUAGES = {"train": "en", "dev": "en", "test.en": "en", "test.de": "de", "test.sw": "sw"}
SCORES = {"full": [0.7, 0.8], "gradual:every=40": [0.75, 0.9]}


@pytest.fixture(autouse=True)
def _own_figures_alone(draw_only: Callable[..., None]) -> None:
    draw_only(GainsSection)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = write_study(tmp_path / "study", seeds=(0, 1), scores=SCORES, tests=TESTS, languages=LANGUAGES, source="en")
    for file in folder.glob("runs/*/*/scores.json"):
        record = json.loads(file.read_text())
        record["averages"] = average({"dev": record["dev"], **record["tests"]}, LANGUAGES, "en")
        file.write_text(json.dumps(record))
    return folder


def test_methods_are_compared_on_the_zero_shot_average(study: Path) -> None:
    findings = summarize_study(read_study(study))
    assert findings.split == "zero-shot"
    assert findings.reference.score.mean == pytest.approx(0.6)  # of 0.6 and 0.5, and of 0.7 and 0.6
    assert main_table(findings).columns[1].title == "macro-F1 × 100, zero-shot average"
    assert verdict(findings).startswith("gradual:every=40 scored highest on the zero-shot average: 67.5")
    assert {record["split"] for record in records(findings.results.folder)} == {"zero-shot"}
    assert records(findings.results.folder)[0]["scores"]["distant"][METRIC] == pytest.approx(0.5)


def test_each_language_has_its_score_and_gain(study: Path) -> None:
    table = gain_table(summarize_study(read_study(study)))
    rows = {row[0].text: [entry.line for entry in row[1:]] for row in table.rows}
    assert list(rows) == ["zero-shot average", "average of all languages", "distant average", "en (source)", "de", "sw"]
    assert rows["de"] == ["65.0 ± 7.1", "72.5 ± 10.6 (+7.5)"]
    record = next(r for r in table.records if r["method"] != "full" and r["language"] == "sw")
    assert record["difference"] == pytest.approx(0.075)
    assert record["relative_difference"] == pytest.approx(0.075 / 0.55)
    assert [r["language"] for r in table.records if r["split"] == "zero-shot"] == [None, None]


def test_the_report_has_the_languages_as_files_and_on_the_page(study: Path) -> None:
    written = write_report(study)
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {"languages.csv", "languages.md", "languages.tex", "languages.svg"} <= names
    assert "splits.csv" not in names
    with (study / "tables/languages.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == 12
    described = (study / "figures/languages.svg").read_text()
    assert "gradual:every=40 en (source) 82.5 (+7.5), de 72.5 (+7.5), sw 62.5 (+7.5)." in described
    page = written.html.read_text()
    assert "zero-shot average" in page
    assert "languages other than en" in page
    seeds = (study / "tables/seeds.csv").read_text().splitlines()[0]
    assert "test.sw_score" in seeds


def test_a_study_in_one_language_is_told_as_before(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", scores={"full": [0.7]}, tests=("test", "test_hard"))
    findings = summarize_study(read_study(study))
    assert (findings.split, findings.results.averages) == ("test", ())
    assert not (study / "tables/languages.csv").exists()


def test_gains_and_losses_have_two_colours_and_the_largest_the_strongest(study: Path) -> None:
    table = gain_table(summarize_study(read_study(study)))
    gains = [entry for row in table.rows for entry in row[2:]]
    assert {entry.heat for row in table.rows for entry in row[:2]} == {None}, "the reference has no gain"
    assert max(entry.heat or 0.0 for entry in gains) == pytest.approx(1.0)
    page = write_report(study).html.read_text(encoding="utf-8")
    assert 'class="n heat" style="--heat: 100%"' in page
    assert "Blue: better than full; orange: worse." in page


def test_a_lower_error_is_a_gain(tmp_path: Path) -> None:
    scores = {"full": [0.7, 0.8], "head": [0.9, 1.0]}
    task = {"tests": TESTS, "languages": LANGUAGES, "source": "en", "metric": "mse", "metric_higher_is_better": False}
    folder = write_study(tmp_path / "study", methods=tuple(scores), seeds=(0, 1), scores=scores, **task)
    table = gain_table(summarize_study(read_study(folder)))
    heats = [entry.heat for row in table.rows for entry in row[2:] if entry.heat is not None]
    assert heats
    assert heats == pytest.approx([-1.0] * len(heats))
