"""The answer of a study whose arms have different seeds: no mean over other seeds is called higher."""

from __future__ import annotations

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
