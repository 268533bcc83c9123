"""A report of a study with runs that are paused: it says so, and compares what has finished."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gradgate.report import write_report
from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import cautions, verdict
from gradgate.runs.state import RunState
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.export import records
from gradgate.study.pooled import read_pooled
from gradgate.study.results import read_study
from support.study_folder import fail, pause, write_study

pytestmark = pytest.mark.usefixtures("_without_figures")


@pytest.fixture
def _without_figures(draw_only) -> None:
    draw_only()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Of the second method a run has finished, one is paused, and one has failed after a pause."""
    folder = write_study(tmp_path / "study", scores={"full": [0.70, 0.72, 0.74], "gradual:every=40": [0.73]})
    pause(folder, "gradual:every=40", 1)
    pause(folder, "gradual:every=40", 2)
    fail(folder, "gradual:every=40", 2)
    return folder


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_the_page_says_what_is_paused(study: Path) -> None:
    written = write_report(study)
    page = written.html.read_text(encoding="utf-8")
    assert "<li>gradual:every=40, seed 1: paused at step 12 of 80</li>" in page
    assert "Not finished yet:" not in page
    assert "1 of 3" in page
    assert "(1 failed, 1 paused)" in page
    assert cautions(summarize_study(read_study(study)))[0] == "6 runs planned: 4 finished, 1 failed and 1 paused."


def test_the_tables_have_the_status(study: Path) -> None:
    write_report(study)
    (seeds,) = study.rglob("seeds.csv")
    assert [row["status"] for row in rows(seeds)] == ["finished"] * 4 + ["paused", "failed"]
    (statistics,) = study.rglob("statistics.csv")
    own = rows(statistics)[1]
    assert [own[name] for name in ("planned", "failed", "missing", "paused", "pairs")] == ["3", "1", "0", "1", "1"]
    assert [(record["status"], record["score"]) for record in records(study)][3:] == [
        ("finished", 0.73),
        ("paused", None),
        ("failed", None),
    ]


def test_a_study_of_paused_runs_alone_has_a_report(tmp_path: Path) -> None:
    folder = write_study(tmp_path, methods=("full",), seeds=(0, 1))
    for seed in (0, 1):
        pause(folder, "full", seed)
    page = write_report(folder).html.read_text(encoding="utf-8")
    assert "full, seed 1: paused at step 12 of 80" in page
    found = summarize_study(read_study(folder))
    assert verdict(found) == "Nothing has finished yet."
    assert cautions(found)[0] == "2 runs planned: 0 finished and 2 paused."


def test_a_study_of_several_tasks_names_the_task_of_what_is_paused(tmp_path: Path) -> None:
    paths = Conditions((TaskChoice("alpha"), TaskChoice("beta")), ("toy",)).paths(tmp_path)
    tasks = [{"task": name, "data": None} for name in ("alpha", "beta")]
    (tmp_path / "parts.json").write_text(json.dumps({"tasks": tasks, "models": ["toy"]}))
    for name, path in zip(("alpha", "beta"), paths, strict=True):
        write_study(path, methods=("full",), scores={"full": [0.5, 0.6]}, name=name)
    pause(path, "full", 2)
    results = read_pooled(tmp_path)
    assert results.count(RunState.PAUSED) == 1
    assert [cell.state for cell in results.cells] == ["finished", "finished", "missing"]
    page = write_report(tmp_path).html.read_text(encoding="utf-8")
    assert "<li>beta: full, seed 2: paused at step 12 of 80</li>" in page
