"""Run and study folders of an earlier version are read, with the scores they were written with."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from support.command_line import Command
from support.contract import FOLDER, check_json

RUNS = ("run-method", "run-adapter")
STUDIES = ("study-budget", "study-crossed")
OF_RUN = ("task", "model", "train_size", "method", "adapter", "seed", "status", "metric", "split", "score", "scores")
OF_VERDICT = ("winners", "decided", "method", "cheapest", "unsettled", "p", "pairs", "step_share", "needed", "final")
OF_STATUS = ("finished", "running", "waiting", "paused", "failed", "pruned", "budget")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the old folders."""
    return Path(shutil.copytree(FOLDER / "folders", tmp_path / "old"))


@pytest.mark.parametrize("name", RUNS)
def test_old_run_is_read(name: str, old: Path) -> None:
    run = gg.Run(old / name)
    found: dict[str, Any] = {"config": run.config.model_dump(mode="json"), "scores": run.scores, "best": run.best.dev}
    found["config"] = {key: found["config"][key] for key in ("method", "adapter", "seed", "steps", "lr")}
    found["losses"] = run.history["loss"].tolist()
    check_json(f"old/{name}.json", found)


@pytest.mark.parametrize("name", STUDIES)
def test_old_study_is_exported(name: str, old: Path, command: Command) -> None:
    exported = _printed(command, "study", "export", str(old / name), "--json")
    runs = exported["runs"] if isinstance(exported, dict) else exported
    found: dict[str, Any] = {"runs": [{key: run[key] for key in OF_RUN} for run in runs]}
    if isinstance(exported, dict):
        found |= {"budget": exported["budget"], "verdict": _chosen(exported["verdict"], OF_VERDICT)}
    check_json(f"old/{name}-export.json", found)


@pytest.mark.parametrize("name", STUDIES)
def test_old_study_has_its_status(name: str, old: Path, command: Command) -> None:
    status = _printed(command, "study", "status", str(old / name), "--json")
    found = _chosen(status, OF_STATUS)
    found["runs"] = [_chosen(run, ("label", "folder", "state", "step", "total")) for run in status["runs"]]
    check_json(f"old/{name}-status.json", found)


@pytest.mark.parametrize("name", STUDIES)
def test_old_study_is_reported(name: str, old: Path, command: Command, draw_only: Callable[..., None]) -> None:
    draw_only()
    said = command("report", str(old / name))
    assert said.code == 0, said.err
    with (old / name / "tables" / "main.csv").open(encoding="utf-8", newline="") as file:
        rows = [{column: _number(cell) for column, cell in row.items()} for row in csv.DictReader(file)]
    check_json(f"old/{name}-table.json", rows, rel=1e-9)


def _printed(command: Command, *words: str) -> Any:
    said = command(*words)
    assert said.code == 0, said.err
    return json.loads(said.out)


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _chosen(record: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: record[key] for key in keys if key in record}
