"""The files of a run and of a study, and what ``--json`` prints, have the recorded keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.report.sections import SECTIONS
from gradgate.report.sections.base import Section
from support.command_line import Command
from support.contract import check_json, key_tree
from support.trained_here import trained_here

TINY: dict[str, Any] = {
    "model": "sample",
    "task": "sample",
    "languages": "en,de",
    "train_size": 32,
    "dev_size": 16,
    "max_length": 16,
    "batch_size": 4,
    "steps": 8,
    "device": "cpu",
    "threads": 1,
    "keep_model": False,
    "quiet": True,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with an adapter and a method."""
    out = tmp_path_factory.mktemp("contract") / "run"
    return gg.train(method="graddrop", adapter="houlsby:size=8", out=out, **TINY).path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a budget that leaves a run unfinished. Its report has no figures: they take longer than runs."""
    out = tmp_path_factory.mktemp("contract") / "study"
    with trained_here(), pytest.MonkeyPatch.context() as patch:
        for kind in SECTIONS:
            patch.setattr(kind, "drawings", Section.drawings)
        gg.compare(method=["full", "freeze:layers=2"], seeds=2, budget=0.8, out=out, **TINY)
    return out


def test_keys_of_run_files_are_recorded(run: Path) -> None:
    check_json("keys/run.json", {name: _keys_of(run / name) for name in ("run.json", "scores.json")})


def test_keys_of_study_files_are_recorded(study: Path) -> None:
    check_json("keys/study.json", {name: _keys_of(study / name) for name in ("study.json", "budget.json")})


def test_keys_of_study_output_are_recorded(study: Path, command: Command) -> None:
    words = ("study status", "study export")
    printed = {each: _keys_printed(command, *each.split(), str(study), "--json") for each in words}
    check_json("keys/study-output.json", printed)


def test_keys_of_lists_are_recorded(command: Command) -> None:
    lists = ("memory", "tasks", "tasks sample", "methods", "layers sample", "papers")
    check_json("keys/lists.json", {words: _keys_printed(command, *words.split(), "--json") for words in lists})


def _keys_of(path: Path) -> Any:
    return key_tree(json.loads(path.read_text(encoding="utf-8")))


def _keys_printed(command: Command, *words: str) -> Any:
    said = command(*words)
    assert said.code == 0, said.err
    return key_tree(json.loads(said.out))
