"""The answer of a study whose arms have different seeds: no mean over other seeds is called higher."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy import stats

import gradgate as gg
from gradgate.report.sections.gains import GainsSection
from gradgate.report.sections.main_table import main_table
from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import verdict
from gradgate.study.pooled import read_pooled
from gradgate.study.results import read_study
from support.study_folder import finish, write_study

FULL = {seed: 0.9 - 0.03 * seed for seed in range(5)}


def near(by: float, seeds: range) -> dict[int, float]:
    """Scores beside those of ``FULL``, with a little noise."""
    return {seed: FULL[seed] + by + 0.001 * (seed % 2) for seed in seeds}


APART = {seed + 10: 0.97 + 0.01 * seed for seed in range(3)}
CASES = {
    "a higher mean over easier seeds": (
        {"full": FULL, "b": near(-0.019, range(3))},
        "On common seeds, no arm is ahead of full on reported. It is the reference; the next best, b, is at −1.9",
    ),
    "a lower mean over harder seeds": (
        {"full": FULL, "b": near(0.019, range(2, 5))},
        "On common seeds, b is ahead on reported: +1.9 over full",
    ),
    "no common seed": (
        {"full": FULL, "b": APART},
        "Nothing can be compared on reported: b shares no finished seed with full and is not ranked.",
    ),
    "one of two without a common seed": (
        {"full": FULL, "b": near(0.019, range(5)), "c": APART},
        "better than full. c shares no finished seed with full and is not ranked.",
    ),
    "the same where they meet": (
        {"full": FULL, "b": {0: FULL[0], 9: 0.99}},
        "full and b have the same mean on reported over the seeds that they share.",
    ),
    "the same seeds": (
        {"full": FULL, "b": near(-0.019, range(5))},
        "full scored highest on reported: 84.0 ± 4.7 accuracy (5 seeds).",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_other_seeds_rank_nothing(case: str, tmp_path: Path) -> None:
    scores, expected = CASES[case]
    rows = [{"arm": arm, "seed": seed, "accuracy": score} for arm, own in scores.items() for seed, score in own.items()]
    assert expected in gg.import_results(rows, tmp_path / "study").answer


@pytest.mark.parametrize(("case", "is_marked"), [("a lower mean over harder seeds", False), ("the same seeds", True)])
@pytest.mark.usefixtures("no_figures")
def test_means_over_other_seeds_have_no_best_one(case: str, is_marked: bool, tmp_path: Path) -> None:
    scores, _ = CASES[case]
    rows = [{"arm": arm, "seed": seed, "accuracy": score} for arm, own in scores.items() for seed, score in own.items()]
    gg.import_results(rows, tmp_path / "study").report()
    assert ("**" in (tmp_path / "study/tables/main.md").read_text()) is is_marked


def test_parts_are_sorted_from_the_best_where_lower_is_better(tmp_path: Path, draw_only: Callable[..., None]) -> None:
    draw_only(GainsSection)
    rows = [
        {"task": task, "arm": arm, "seed": seed, "loss": loss + 0.1 * seed - by}
        for task, loss in (("hard", 2.0), ("easy", 0.5), ("mid", 1.0))
        for arm, by in (("full", 0.0), ("b", 0.05))
        for seed in range(2)
    ]
    gg.import_results(rows, tmp_path / "study").report()
    drawn = (tmp_path / "study/figures/tasks.svg").read_text()
    assert drawn.index("easy") < drawn.index("mid") < drawn.index("hard")


@pytest.mark.usefixtures("no_figures")
def test_a_share_of_a_score_below_0_is_not_shown(tmp_path: Path) -> None:
    rows = [
        {"task": task, "arm": arm, "seed": seed, "matthews": score + 0.01 * seed}
        for task in ("a", "b")
        for arm, score in (("full", -0.03), ("b", 0.1))
        for seed in range(2)
    ]
    gg.import_results(rows, tmp_path / "study").report()
    with (tmp_path / "study/tables/tasks.csv").open() as lines:
        found = [row for row in csv.DictReader(lines) if row["method"] == "b"]
    assert {row["relative_difference"] for row in found} == {""}
    assert [float(row["difference"]) for row in found] == pytest.approx([0.13] * 3)


def test_without_a_score_of_the_reference_the_seeds_that_others_share_rank(tmp_path: Path) -> None:
    write_study(tmp_path, ("full", "head", "gradual:every=40"), range(6), {"head": [0.9, 0.905, 0.91, 0.89, 0.6, 0.6]})
    for seed, score in enumerate([0.85, 0.85, 0.86, 0.845]):
        finish(tmp_path, "gradual:every=40", seed, score)
    study = summarize_study(read_study(tmp_path))
    assert [arm.name for arm in study.best] == ["head"]  # its mean over all seeds is the lower one
    assert verdict(study) == (
        "full has no score on test. Over the 4 seeds that all others have, head has the highest mean."
    )


def test_without_a_score_of_the_reference_or_a_common_seed_nothing_is_compared(tmp_path: Path) -> None:
    write_study(tmp_path, ("full", "head", "gradual:every=40"), range(4), {"head": [0.9, 0.91]})
    finish(tmp_path, "gradual:every=40", 3, 0.8)
    study = summarize_study(read_study(tmp_path))
    assert study.best == ()
    assert verdict(study).endswith("the other arms have no seed in common: nothing can be compared.")


UNPAIRED = {"full": [0.70, 0.71, 0.69], "b": [0.75, 0.77, 0.76, 0.74], "c": [0.70, 0.69, 0.72]}


@pytest.mark.parametrize("apart", [0, 100])
def test_unpaired_runs_are_compared_all_with_all(apart: int, tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "seed": number + apart * place, "accuracy": score, "task": task}
        for place, (arm, own) in enumerate(UNPAIRED.items())
        for number, score in enumerate(own)
        for task in ("x", "y")
    ]
    study = gg.import_results(rows, tmp_path / "study", pair="none")
    p = stats.ttest_ind(UNPAIRED["b"], UNPAIRED["full"], equal_var=False).pvalue
    assert "b scored highest on the mean over tasks: 75.5 " in study.answer
    assert f"p = {2 * p:.3f} after Holm's correction for 2 tests" in study.answer
    assert "common seed" not in study.answer
    page = summarize_study(read_pooled(study.path))
    gain = page.gain(page.arms[1], "x").versus
    assert (gain.unit, gain.p) == ("run", pytest.approx(p))
    assert "Welch t-test over runs" in main_table(page).notes[-1]


def test_tasks_whose_scores_point_in_opposite_directions_have_no_mean(tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "task": task, "metric": metric, "seed": seed, "score": score + 0.001 * seed}
        for arm, accuracy, error in (("full", 0.7, 1.3), ("b", 0.75, 1.2))
        for task, metric, score in (("reg", "mse", error), ("cls", "accuracy", accuracy))
        for seed in range(4)
    ]
    study = gg.import_results(rows, tmp_path / "study")
    assert "2 comparisons with full over 2 tasks" in study.answer
    assert "mean over tasks" not in study.answer


def test_a_reference_that_the_first_task_lacks_is_still_the_reference(tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "task": task, "seed": seed, "accuracy": score + 0.001 * seed * place}
        for task in ("a", "b", "c")
        for place, (arm, score) in enumerate((("full", 0.7), ("lora:r=8", 0.75), ("head", 0.6)))
        for seed in range(4)
        if (arm, task) != ("full", "a")
    ]
    study = gg.import_results(rows, tmp_path / "study")
    assert summarize_study(read_pooled(study.path)).reference.name == "full"
    assert "4 comparisons with full over 3 tasks: 2 better, 2 worse." in study.answer
