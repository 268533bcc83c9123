"""Which run of a study is exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.errors import RunError
from gradgate.study.best_run import best_run
from support.study_folder import begin, finish, write_study

SCORES = {"full": (0.70, 0.90, 0.71), "gradual:every=40": (0.80, 0.81, 0.82)}


def study(folder: Path, scores: dict[str, tuple[float, ...]] = SCORES) -> Path:
    """A study whose finished runs have kept a model."""
    write_study(folder, scores=scores)
    for file in folder.glob("runs/*/*/scores.json"):
        (file.parent / "model").mkdir()
    return folder


def test_best_seed_of_the_best_arm_is_named(tmp_path: Path) -> None:
    chosen = best_run(study(tmp_path / "study"))
    assert chosen.folder.path == tmp_path / "study/runs/method-1/seed-2"
    assert "gradual:every=40 with seed 2, macro_f1 0.8300 on dev" in chosen.why
    assert str(chosen.folder.path) in chosen.why


def test_run_without_a_model_is_passed_over(tmp_path: Path) -> None:
    folder = study(tmp_path / "study")
    (folder / "runs/method-1/seed-2/model").rmdir()
    assert best_run(folder).folder.path.name == "seed-1"


def test_study_without_a_finished_run_has_none(tmp_path: Path) -> None:
    folder = study(tmp_path / "study", {})
    begin(folder, "full", 0)
    with pytest.raises(RunError, match=r"No run of the study in .* has finished and kept its model"):
        best_run(folder)


def test_run_stands_for_itself(tmp_path: Path) -> None:
    folder = study(tmp_path / "study")
    run = finish(folder, "full", 0, 0.5)
    assert best_run(run).folder.path == run
    assert best_run(run).why == ""
    with pytest.raises(RunError, match="holds no run"):
        best_run(tmp_path)
