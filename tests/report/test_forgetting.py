"""The column, the table, the figure and the paragraph of what was forgotten."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gradgate.report import write_report
from gradgate.report.sections.forgetting import ForgettingSection, forgetting_table
from gradgate.report.sections.main_table import main_table
from gradgate.report.sections.scores import ScoresSection
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.study_folder import forget, write_study
from support.written_report import printed

SCORES = {"head": [0.50, 0.52, 0.54], "full": [0.80, 0.82, 0.84], "gradual:every=40": [0.40, 0.41, 0.42]}
LOST = {"head": [0.0, 0.0, 0.0], "full": [0.50, 0.60, 0.70], "gradual:every=40": [0.3, 0.3, 0.3]}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_study(tmp_path, tuple(SCORES), scores=SCORES)
    forget(tmp_path, LOST)
    return tmp_path


def test_the_main_table_has_a_column(study: Path) -> None:
    table = main_table(summarize_study(read_study(study)))
    place = [column.key for column in table.columns].index("forgetting")
    assert table.columns[place].title == "Forgetting, loss"
    assert [row[place].text for row in table.rows] == ["0.000 ± 0.000", "+0.600 ± 0.100", "+0.300 ± 0.000"]
    assert [row[place + 1].text for row in table.rows] == ["yes", "yes", "no"]
    assert table.records[1]["forgetting_mean"] == pytest.approx(0.6)
    assert [record["on_frontier"] for record in table.records] == [1, 1, 0]


def test_a_study_without_it_has_no_column_and_its_own_order(tmp_path: Path) -> None:
    found = summarize_study(read_study(write_study(tmp_path, tuple(SCORES), scores=SCORES)))
    assert ForgettingSection.find(found) is None
    assert not {"forgetting", "frontier"} & {column.key for column in main_table(found).columns}
    assert "on_frontier" not in main_table(found).records[0]
    ((table, keys),) = ScoresSection(found).printed()
    assert [row[0].text for row in table.rows] == list(SCORES)
    assert "forgetting" not in keys


def test_the_terminal_ranks_by_score_and_marks_the_frontier(study: Path) -> None:
    said = printed(study, 160)
    places = [said.index(f"│ {name} ") for name in ("full", "head", "gradual:every=40")]
    assert places == sorted(places)
    assert "Frontier" in said
    assert "On wiki.txt, head forgets 0.000 ± 0.000 loss and scores 52.0 macro-F1 × 100" in " ".join(said.split())


def test_the_report_has_the_section(study: Path, draw_only) -> None:
    draw_only(ForgettingSection)
    written = write_report(study)
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {"forgetting.csv", "forgetting.tex", "forgetting.svg", "forgetting.pdf"} <= names
    page = " ".join(written.html.read_text(encoding="utf-8").replace("\u00a0", " ").split())
    assert "full forgets 0.600 ± 0.100 loss and scores 82.0 macro-F1 × 100. full and head are on the frontier" in page
    assert "1 other method is dominated by one of these." in page
    rows = list(csv.DictReader((study / "tables/forgetting.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == ["full", "head", "gradual:every=40"]
    assert (rows[0]["before"], float(rows[0]["after_mean"])) == ("2.0", pytest.approx(2.6))
    svg = (study / "figures/forgetting.svg").read_text(encoding="utf-8")
    assert "full forgets 0.600" in svg


def test_a_run_that_lost_every_number_is_left_out(study: Path) -> None:
    forget(study, {"gradual:every=40": [float("nan")] * 3})
    found = summarize_study(read_study(study))
    table = forgetting_table(found, found.forgetting)
    shown = {row[0].text: [entry.text for entry in row[4:]] for row in table.rows}
    assert shown["gradual:every=40"][0] == "–"
    assert found.frontier == {"full", "head"}


@pytest.mark.parametrize("tokens", [1000, None])
def test_a_divergence_is_said_in_words(study: Path, draw_only, tokens: int | None) -> None:
    draw_only()
    forget(study, LOST, "kl", before=0.0, tokens=tokens)
    page = " ".join(write_report(study).html.read_text(encoding="utf-8").replace("\u00a0", " ").split())
    over = (
        "1,000 tokens in 40 texts;"
        if tokens
        else "the tokens that the loss counts in 40 rows of prompts and responses."
    )
    assert (
        "Forgetting on wiki.txt: the mean Kullback-Leibler divergence KL(pretrained || trained) of the distributions "
        f"of the next token, in nats per token, over {over}" in page
    )
    assert "Values above 0 mean that the model moved away from the pretrained one on this text." in page
    assert "full has a KL divergence of 0.600 ± 0.100 and scores 82.0 macro-F1 × 100" in page
    assert "KL divergence before" in page
    assert "log-likelihood" not in page
