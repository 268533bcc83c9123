"""Runs that only guess count as collapsed, whatever the spread of their arm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import cautions
from gradgate.report.verdict_sentence import sentence
from gradgate.study.guessing import guessing_score
from gradgate.study.recommend.final_model import find_final
from gradgate.study.results import read_study
from gradgate.study.verdicts import study_verdicts
from support.study_folder import write_study

SCORES = {"full": [0.62, 0.66, 0.70, 0.66], "gradual:every=40": [0.61, 0.60, 0.69, 0.70]}
GOLD = ["no"] * 12 + ["yes"] * 8
COUNTS = {"no": 60, "yes": 40}


def make_study(
    folder: Path, gold: list[Any], metric: str = "accuracy", scores: dict[str, list[float]] = SCORES, **task: Any
) -> Path:
    known: dict[str, Any] = {"metric": metric, "train_counts": COUNTS} | task
    study = write_study(folder, methods=tuple(scores), seeds=range(4), scores=scores, **known)
    for run in (study / "runs").glob("*/*"):
        (run / "predictions").mkdir()
        rows = [{"index": at, "gold": label, "predicted": "no"} for at, label in enumerate(gold)]
        (run / "predictions" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return study


def guessed(study: Path) -> float | None:
    return guessing_score(read_study(study), "test")


@pytest.mark.parametrize(
    ("metric", "score"), [("accuracy", 0.6), ("macro_f1", 0.375), ("matthews", 0.0), ("weighted_f1", 0.45)]
)
def test_the_most_frequent_class_is_guessed(tmp_path: Path, metric: str, score: float) -> None:
    assert guessed(make_study(tmp_path / "study", GOLD, metric)) == pytest.approx(score)


def test_a_run_that_guesses_has_collapsed(tmp_path: Path) -> None:
    (verdict,) = study_verdicts(make_study(tmp_path / "study", GOLD))
    assert (verdict.collapsed.collapsed, verdict.reference_collapsed.collapsed) == (1, 0)
    assert verdict.without_collapsed is not None


def test_all_runs_of_an_arm_may_collapse(tmp_path: Path) -> None:
    scores = {"full": [0.62, 0.66, 0.70, 0.66], "gradual:every=40": [0.6, 0.6, 0.6, 0.55]}
    (verdict,) = study_verdicts(make_study(tmp_path / "study", GOLD, scores=scores))
    assert (verdict.collapsed.collapsed, verdict.reference_collapsed.collapsed) == (4, 0)
    assert verdict.record()["word_without_collapsed"] == "inconclusive"
    assert sentence(verdict).endswith(
        "4 of 4 runs of gradual:every=40 and 0 of 4 of full collapsed; without them: no comparison is left."
    )


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (12, ""),
        (13, "gradual:every=40: no better than {} (65.0)"),
        (15, "full, gradual:every=40 and head: no better than {} (75.0)"),
    ],
)
def test_arms_that_only_guess_are_named(tmp_path: Path, most: int, said: str) -> None:
    scores = SCORES | {"head": [0.7, 0.7, 0.71, 0.72]}
    study = make_study(tmp_path / "study", ["no"] * most + ["yes"] * (20 - most), scores=scores)
    found = [note for note in cautions(summarize_study(read_study(study))) if "most frequent class" in note]
    said = said.format("always answering with the most frequent class of train")
    assert found == ([f"{said}; train longer, or search other learning rates."] if said else [])


@pytest.mark.parametrize(
    ("gold", "task"),
    [
        (["no", "maybe"], {}),  # a label that the task lacks
        ([], {}),
        (GOLD, {"train_counts": None}),
        (GOLD, {"metric": "rougeL"}),
        (GOLD, {"kind": "token-classification"}),
    ],
)
def test_where_guessing_is_unknown_nothing_collapses_by_it(tmp_path: Path, gold: list[Any], task: Any) -> None:
    study = make_study(tmp_path / "study", gold, **task)
    assert guessed(study) is None
    assert study_verdicts(study)[0].collapsed.collapsed == 0


def test_damaged_predictions_of_a_run_are_passed_over(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", GOLD)
    first, *others = sorted((study / "runs").glob("*/*/predictions/test.jsonl"))
    first.write_text("{\n")
    assert guessed(study) == pytest.approx(0.6)
    for file in others:
        file.unlink()
    assert guessed(study) is None


@pytest.mark.parametrize(("most", "warned"), [(12, False), (15, True)])
def test_a_recommended_model_that_guesses_comes_with_a_warning(tmp_path: Path, most: int, warned: bool) -> None:
    found = find_final(make_study(tmp_path / "study", ["no"] * most + ["yes"] * (20 - most)), "full")
    assert found is not None
    assert (found.warning is not None) == warned
    if found.warning is not None:
        assert "scores 0.75 on test" in found.warning
