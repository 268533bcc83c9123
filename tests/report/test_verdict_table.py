"""The terminal, the page and the files show the same verdicts, in the units of the other tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import gradgate as gg
from gradgate.agents.judging import StudyVerdictsArguments
from gradgate.agents.judging import study_verdicts as study_verdicts_tool
from gradgate.cli import run
from gradgate.report import write_report
from gradgate.report.verdict_table import terminal_columns, verdict_table
from gradgate.study.verdicts import study_verdicts
from support.command_line import Command
from support.study_folder import write_study

SCORES = {
    "full": [0.70, 0.71, 0.72, 0.73],
    "gradual:every=40": [0.80, 0.82, 0.81, 0.84],
    "bitfit": [0.9, 0.91, 0.9, 0.3],
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", methods=tuple(SCORES), seeds=range(4), scores=SCORES)


def test_the_file_has_the_units_of_the_others(study: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    write_report(study)
    rows = {row["method"]: row for row in csv.DictReader((study / "tables/verdicts.csv").open())}
    assert float(rows["gradual:every=40"]["difference"]) == pytest.approx(0.1025)
    assert rows["gradual:every=40"]["word"] == "better"
    records = {each.arm: each.record() for each in study_verdicts(study)}
    assert records["gradual:every=40"]["difference"] == pytest.approx(10.25)


def test_collapsed_runs_stand_beside_the_word(study: Path) -> None:
    table = verdict_table(study_verdicts(study))
    row = dict(zip([column.key for column in table.columns], table.rows[1], strict=True))
    assert row["method"].text == "bitfit"
    assert row["word"].text == "inconclusive"
    assert row["collapsed"].text == "1 of 4"
    assert row["collapsed"].detail.endswith("without: better")


def test_the_terminal_leaves_out_what_all_share(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not {"model", "task"} & set(terminal_columns(verdict_table(study_verdicts(study))))
    assert run(["study", "verdicts", str(study)]) == 0
    said = capsys.readouterr().out
    assert "gradual:every=40" in said
    assert said.splitlines()[-1] == "1 better, 1 inconclusive"


def test_verdicts_of_two_training_sizes_are_told_apart(tmp_path: Path, command: Command) -> None:
    rows = [
        {"arm": arm, "seed": seed, "train_size": size, "accuracy": score + seed / 100}
        for size, lora in ((100, 0.6), (1000, 0.8))
        for arm, score in (("full", 0.7), ("lora", lora + size % 7 / 1000))
        for seed in range(3)
    ]
    study = str(tmp_path / "study")
    gg.import_results(rows, study)
    for name in ("verdicts", "power"):
        assert [each["train_size"] for each in json.loads(command("study", name, study, "--json").out)] == [100, 1000]
        assert "Training rows" in command("study", name, study).out
    answer = study_verdicts_tool(StudyVerdictsArguments(study=study))
    assert [line.split(":")[0] for line in answer.text.splitlines()[1:]] == ["100 rows", "1,000 rows"]


@pytest.mark.slow
def test_long_imports_get_their_pages_on_request(tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "task": f"task-{task}", "seed": seed, "accuracy": 0.5 + seed / 10}
        for arm in ("full", "head")
        for task in range(21)
        for seed in range(2)
    ]
    gg.import_results(rows, tmp_path / "study")
    short = write_report(tmp_path / "study").html.read_text(encoding="utf-8")
    assert not list(tmp_path.glob("study/parts/*/report.html"))
    assert "--all-sections" in short
    whole = write_report(tmp_path / "study", all_sections=True).html.read_text(encoding="utf-8")
    pages = list(tmp_path.glob("study/parts/*/report.html"))
    assert len(pages) == 21
    assert all(f"{page.parent.name}/report.html" in whole for page in pages)
