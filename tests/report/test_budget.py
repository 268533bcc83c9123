"""The report of a study with a budget: the race, what left and why, and the verdict."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradgate.report import write_report
from gradgate.report.sections.budget import BudgetSection
from gradgate.report.study_summary import summarize_study
from gradgate.study.budget.file import BUDGET_FILE, write_budget
from gradgate.study.budget.verdict import Departure, Within
from gradgate.study.export import exported
from gradgate.study.results import read_study
from gradgate.study.status import read_status, status_table
from support.budgets import RECORD, VERDICT
from support.command_line import Command
from support.study_folder import forget, pause, write_study
from support.written_report import printed


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Three whole runs of the winner, and two of another arm that were paused at an eighth."""
    folder = write_study(tmp_path / "study", scores={"full": [0.70, 0.72, 0.74]})
    for seed in (0, 1):
        pause(folder, "gradual:every=40", seed, score=0.5 + 0.1 * seed, step=10)
    write_budget(folder, RECORD)
    return folder


def test_the_report_shows_the_race(study: Path, draw_only) -> None:
    draw_only(BudgetSection)
    page = write_report(study).html.read_text(encoding="utf-8")
    assert '<p class="answer">full is better than every other arm.</p>' in page
    assert '<p class="remark">A test. 4 of 6 runs were not begun.</p>' in page
    assert "260 of the grid&#39;s 480" in page.replace("\u00a0", " ")
    assert "gradual:every=40 was dropped after 0.125 of the schedule: place 2 of 2 on 2 pairs" in page
    assert (study / "figures/race.svg").is_file()
    rows = list(csv.DictReader((study / "tables/race.csv").read_text(encoding="utf-8").splitlines()))
    found = [(row["method"], row["step_share"], row["n"], row["outcome"]) for row in rows]
    assert found == [
        ("full", "0.5", "3", "wins"),
        ("full", "1.0", "3", "wins"),
        ("gradual:every=40", "0.125", "2", "dropped at 12.5 %: place 2 of 2"),
    ]
    assert float(rows[2]["mean"]) == pytest.approx(0.55)
    section = BudgetSection.find(summarize_study(read_study(study)))
    assert section is not None
    assert section.remarks() == ["A test. 4 of 6 runs were not begun.", RECORD.spending]
    (drawing,) = section.drawings()
    assert "gradual:every=40 has 55.0 at 12.5 % (2 runs), dropped at 12.5 %: place 2 of 2" in drawing.text


def test_a_race_under_way_says_who_is_in_it(study: Path) -> None:
    write_budget(study, replace(RECORD, final=False))
    section = BudgetSection.find(summarize_study(read_study(study)))
    assert section is not None
    assert section.cautions() == ["The budget is not spent yet: run the same command again to continue."]
    lines = [str(line) for line in status_table(read_status(study)).renderables]
    assert "The budget is being spent: 1 of 2 arms remain; full has the best mean on dev so far." in lines
    assert "Remaining: full." in lines


def test_a_damaged_budget_is_told_and_the_rest_is_reported(study: Path, draw_only) -> None:
    draw_only()
    (study / BUDGET_FILE).write_text('{"version": 99}')
    assert "budget.json has version 99, expected 1" in write_report(study).html.read_text(encoding="utf-8")


def test_the_export_has_budget_and_verdict_beside_the_runs(study: Path, command: Command) -> None:
    record = json.loads(command("study", "export", str(study), "--json")[1])
    assert record == json.loads(json.dumps(exported(study)))
    assert record["budget"] == {"steps_of_grid": 480, "steps_allowed": 300, "steps_spent": 260, "promise": ""}
    assert (record["verdict"]["winners"], record["verdict"]["decided"]) == (["full"], True)
    assert [run["status"] for run in record["runs"]] == ["finished"] * 3 + ["paused"] * 2 + ["missing"]
    assert command("study", "export", str(study), "--csv")[1].count("\n") == 7


def test_a_race_begins_with_its_verdict_the_command_and_its_picture(study: Path, draw_only) -> None:
    """An arm without a whole run is in no table of scores, and what a budget left out is not listed as unfinished."""
    draw_only(BudgetSection)
    for seed in range(3):
        (study / f"runs/method-0/seed-{seed}/model").mkdir()
    page = write_report(study).html.read_text(encoding="utf-8")
    train = page.index("gradgate train <span>--model</span>")
    places = [page.index('class="answer"'), train, page.index("<svg"), page.index('id="table-race"')]
    assert places == sorted(places)
    assert page.index('id="table-race"') < page.index('id="table-main"')
    assert f"gradgate predict {study.name}/runs/method-0/seed-2" in page
    assert str(study) not in page
    main = page[page.index('id="table-main"') :]
    assert "gradual" not in main[: main.index("</table>")]
    assert "Not finished yet" not in page
    rows = list(csv.DictReader((study / "tables/main.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["method"] for row in rows] == ["full", "gradual:every=40"], "files have every arm"


def test_a_race_without_a_whole_run_has_no_table_of_scores(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", seeds=(0,))
    pause(folder, "gradual:every=40", 0, score=0.5, step=10)
    verdict = replace(VERDICT, decided=False, tested=False, winners=("gradual:every=40", "full"), departures=())
    write_budget(folder, replace(RECORD, seeds=(0,), verdict=verdict))
    page = write_report(folder).html.read_text(encoding="utf-8")
    assert 'id="table-main"' not in page
    assert 'id="table-race"' in page


def test_a_race_that_measured_forgetting_has_its_table_in_the_terminal(study: Path) -> None:
    forget(study, {"full": [0.1, 0.2, 0.3]})
    assert "72.0 ± 2.0" in printed(study, 160)


def test_sentences_of_a_race_have_the_unit_of_its_tables() -> None:
    left = Departure("head", 0.25, 2, 2, 2, behind=0.0123, factor=100)
    assert left.reason.endswith("place 2 of 2 on 2 pairs, 1.23 points behind the best score on dev.")
    assert replace(left, factor=1).reason.endswith("0.0123 behind the best score on dev.")
    tie = replace(VERDICT, winners=("full", "head"), decided=False, within=(Within("full", 0.0), Within("head", 0.01)))
    assert "by at most: full (0 points) and head (1 point)." in replace(tie, factor=100).details
