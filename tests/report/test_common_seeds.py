"""The answer of a study whose arms have different seeds: no mean over other seeds is called higher."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import gradgate as gg

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
def test_means_over_other_seeds_have_no_best_one(case: str, is_marked: bool, tmp_path: Path) -> None:
    scores, _ = CASES[case]
    rows = [{"arm": arm, "seed": seed, "accuracy": score} for arm, own in scores.items() for seed, score in own.items()]
    gg.import_results(rows, tmp_path / "study").report()
    assert ("**" in (tmp_path / "study/tables/main.md").read_text()) is is_marked


def test_parts_are_sorted_from_the_best_where_lower_is_better(tmp_path: Path) -> None:
    rows = [
        {"task": task, "arm": arm, "seed": seed, "loss": loss + 0.1 * seed - by}
        for task, loss in (("hard", 2.0), ("easy", 0.5), ("mid", 1.0))
        for arm, by in (("full", 0.0), ("b", 0.05))
        for seed in range(2)
    ]
    gg.import_results(rows, tmp_path / "study").report()
    drawn = (tmp_path / "study/figures/tasks.svg").read_text()
    assert drawn.index("easy") < drawn.index("mid") < drawn.index("hard")


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
