"""Which run of a study is exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gradgate as gg
from gradgate.errors import RunError
from gradgate.study.best_run import best_run, recommended_arm
from gradgate.study.budget.file import read_budget, write_budget
from gradgate.study.recommend.final_model import find_final
from support.budget_file import give_budget
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


def test_lower_is_better_for_a_loss(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", scores=SCORES, metric_higher_is_better=False)
    for file in folder.glob("runs/*/*/scores.json"):
        (file.parent / "model").mkdir()
    assert best_run(folder).folder.path == folder / "runs/method-0/seed-0"
    final = find_final(folder, "gradual:every=40")
    assert final is not None
    assert final.seed == 0


@pytest.mark.parametrize(
    ("winners", "cheapest", "found"),
    [
        (("gradual:every=40",), "gradual:every=40", "gradual:every=40"),
        (("gradual:every=40", "full"), "full", "full"),
        (("gradual:every=40", "full"), None, "gradual:every=40"),
    ],
    ids=["winner", "cheapest of a tie", "tie without costs"],
)
def test_arm_of_a_budget_is_the_recommended_one(
    tmp_path: Path, winners: tuple[str, ...], cheapest: str | None, found: str
) -> None:
    folder = study(tmp_path / "study")
    give_budget(folder, winners, cheapest)
    budget = read_budget(folder)
    assert budget is not None
    assert recommended_arm(folder, budget.verdict) == found
    assert gg.Study(folder).best == found
    final = find_final(folder, found)
    assert final is not None
    assert best_run(folder).folder.path == final.folder


def test_without_a_test_the_best_finished_run_of_the_remaining_arms_is_taken(tmp_path: Path) -> None:
    folder = study(tmp_path / "study")
    record = give_budget(folder, ("gradual:every=40", "full"), "gradual:every=40")
    verdict = replace(record.verdict, tested=False)
    write_budget(folder, replace(record, verdict=verdict))
    assert recommended_arm(folder, verdict) == gg.Study(folder).best == "full", "seed 1 of it has 0.90"
    assert best_run(folder).folder.path == folder / "runs/method-0/seed-1"
    assert recommended_arm(folder, replace(verdict, winners=("gradual:every=40",))) == "gradual:every=40"


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


def test_arms_are_compared_on_the_seeds_that_all_have(tmp_path: Path) -> None:
    """full lacks its worst seed: over all that it has, its mean is the better one."""
    folder = study(tmp_path / "study", {"full": (0.70, 0.95, 0.20), "gradual:every=40": (0.80, 0.96, 0.30)})
    (folder / "runs/method-0/seed-2/scores.json").unlink()
    assert best_run(folder).folder.path == folder / "runs/method-1/seed-1"
