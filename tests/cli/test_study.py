"""The commands for a study under way: what they print, and their exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from support.command_line import Command
from support.study_folder import fail, write_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two finished runs, a failed one and three that were not begun, made before studies had a store."""
    folder = write_study(tmp_path / "study", scores={"full": [0.7, 0.8]})
    fail(folder, "full", 2, "The loss became [nan].")
    (folder / "runs/method-0").rename(folder / "runs/full")  # where a comparison looks for them
    return folder


def test_the_status_counts_runs_and_is_also_json(command: Command, study: Path) -> None:
    code, out, _ = command("study", "status", str(study))
    assert code == 0
    assert "6 runs: 2 finished, 0 running, 3 waiting, 1 failed" in out
    record = json.loads(command("study", "status", str(study), "--json")[1])
    assert (record["finished"], record["failed"], record["waiting"], record["running"]) == (2, 1, 3, 0)
    assert len(record["runs"]) == 6


def test_failed_runs_are_shown_with_their_reason_and_log(command: Command, study: Path) -> None:
    out = command("study", "failed", str(study))[1]
    assert "full seed 2" in out
    assert "The loss became [nan]." in out
    assert "seed-2.log" in out
    assert [run["label"] for run in json.loads(command("study", "failed", str(study), "--json")[1])] == ["full seed 2"]


def test_retried_runs_wait_for_a_worker(command: Command, study: Path) -> None:
    code, out, _ = command("study", "retry", str(study))
    assert code == 0
    assert out.endswith(f"start them with: gradgate worker {study}\n")
    assert json.loads(command("study", "status", str(study), "--json")[1])["waiting"] == 4


def test_a_finished_run_whose_scores_were_removed_can_be_retried(command: Command, study: Path) -> None:
    command("study", "retry", str(study))  # makes the queue
    (study / "runs/full/seed-0/scores.json").unlink()
    assert "scores.json has been removed" in command("study", "failed", str(study))[1]
    assert json.loads(command("study", "status", str(study), "--json")[1])["failed"] == 1
    out = command("study", "retry", str(study), "-m", "full", "--seed", "0")[1]
    assert out.endswith(f"1 run waits again; start it with: gradgate worker {study}\n")


def test_only_runs_that_the_study_has_are_retried(command: Command, study: Path) -> None:
    code, _, err = command("study", "retry", str(study), "-m", "ful")
    assert code == 2
    assert "--method ful: no run of the study matches. Did you mean 'full'?" in err
    assert command("study", "retry", str(study), "--seed", "7").code == 2
    assert command("study", "retry", str(study), "-m", "full", "--seed", "0").out == "None of these runs has failed.\n"
    assert command("study", "retry", str(study), "--seed", "2").out.startswith("2 runs wait already; start them with:")


def test_runs_are_exported_as_json_and_csv(command: Command, study: Path) -> None:
    records = json.loads(command("study", "export", str(study), "--json")[1])
    assert [(r["task"], r["method"], r["seed"], r["status"], r["score"]) for r in records[:3]] == [
        ("toy", "full", 0, "finished", 0.7),
        ("toy", "full", 1, "finished", 0.8),
        ("toy", "full", 2, "failed", None),
    ]
    assert len(records) == 6
    rows = list(csv.DictReader(io.StringIO(command("study", "export", str(study), "--csv")[1])))
    assert len(rows) == 6
    assert (rows[0]["score"], rows[0]["test.macro_f1"], rows[2]["error"]) == ("0.7", "0.7", "The loss became [nan].")


@pytest.mark.parametrize("words", [["--json", "--csv"], ["--curves", "F", "--json"], ["--csv", "--curves", "F"]])
def test_two_forms_of_one_export_are_refused(command: Command, study: Path, words: list[str], tmp_path: Path) -> None:
    words = [str(tmp_path / "curves.csv") if word == "F" else word for word in words]
    code, out, err = command("study", "export", str(study), *words)
    assert (code, out) == (2, "")
    assert "expected one of them" in err
    assert not list(tmp_path.glob("curves.csv"))


@pytest.mark.parametrize("words", [["report"], ["study", "status"], ["study", "export"]])
def test_a_run_says_what_takes_it(command: Command, study: Path, words: list[str]) -> None:
    run = next(study.rglob("run.json")).parent
    code, out, err = command(*words, str(run))
    assert (code, out) == (1, "")
    assert "is a single run, not a study" in err
    assert str(run / "scores.json") in err
    assert "gradgate predict" in err


@pytest.mark.parametrize("words", [["worker"], ["study", "status"], ["study", "retry"], ["study", "export"]])
def test_a_folder_without_a_study_is_told(command: Command, words: list[str], tmp_path: Path) -> None:
    code, out, told = command(*words, str(tmp_path))
    assert (code, out) == (1, "")
    assert "study.json is missing" in told
    assert list(tmp_path.iterdir()) == []
