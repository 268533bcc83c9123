"""What a budget says: a leader that nothing tested is none, and confidence belongs to a winner."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gradgate.runs.state import Progress
from gradgate.study.budget import Allocator, RunKey
from gradgate.study.budget.evidence import Look
from gradgate.study.budget.judging import Compared, judge
from gradgate.study.budget.stages import Stage
from gradgate.study.budget.standing import standing
from support.simulated_runs import full_grid, noisy, run


@pytest.mark.parametrize(
    ("arms", "seeds", "share", "gap", "tested", "decided"),
    [
        (8, 3, 0.13, 0.0, False, False),  # ends at an eighth
        (8, 3, 0.13, 50.0, False, False),
        (4, 1, 1.0, 50.0, False, False),  # one pair
        (3, 6, 1.0, 50.0, True, True),
        (3, 6, 1.0, 0.0, True, False),
    ],
)
def test_only_tests_make_leaders(arms: int, seeds: int, share: float, gap: float, tested: bool, decided: bool) -> None:
    grid = full_grid(arms, seeds)
    allocator = Allocator(grid, int(share * grid.total_steps))
    means = np.array([gap, *[0.0] * (arms - 1)])
    verdict = allocator.verdict(run(allocator, noisy(means, seeds, 1.0, seed=2)))
    assert (verdict.tested, verdict.decided) == (tested, decided)
    assert verdict.confidence == (0.95 if decided else None)
    assert verdict.record()["verdict"]["confidence"] == verdict.confidence
    assert ("nothing was tested" in verdict.headline) is not tested
    if not tested:
        assert " leads" not in verdict.summary
        assert "not significantly worse" not in verdict.summary


def test_two_arms_at_a_short_length_are_ranked_by_what_differs() -> None:
    grid = full_grid(2, 1)
    known = {
        RunKey(arm, "t0", 0): Progress(10, {10: score}, losses={10: loss})
        for arm, score, loss in (("a0", 0.60, 0.5000), ("a1", 0.90, 0.5001))
    }
    found = standing(grid, (Stage(2, 1, 1), Stage(1, 8, 1)), known)
    assert found.arms == ("a1",)
    assert [(left.arm, left.place) for left in found.departures] == [("a0", 2)]


@pytest.mark.parametrize(
    ("scores", "losses", "best"),
    [
        ((0.60, 0.61), (0.9, 0.5), "a1"),
        ((0.600, 0.601), (0.5, 0.9), "a0"),  # a tenth of a point against a loss that is nearly twice as high
        ((0.90, 0.60, 0.60), (0.5001, 0.5000, 0.5002), "a0"),
        ((0.5, 0.5), (0.7, 0.6), "a1"),
        ((0.9, 0.6), (0.5, 0.5), "a0"),
    ],
)
def test_tiny_differences_do_not_cancel_large_ones(
    scores: tuple[float, ...], losses: tuple[float, ...], best: str
) -> None:
    known = {
        RunKey(f"a{arm}", "t0", 0): Progress(10, {10: score}, losses={10: loss})
        for arm, (score, loss) in enumerate(zip(scores, losses, strict=True))
    }
    found = standing(full_grid(len(scores), 1), (Stage(len(scores), 1, 1),), known)
    assert found.arms[0] == best


def test_two_arms_are_tested_as_scipy_does() -> None:
    scores = noisy(np.array([1.5, 0.0]), 6, 5.0, seed=4)
    table = {"a0": tuple(scores[0]), "a1": tuple(scores[1])}
    found = judge([Compared(Stage(2, 8, 6), table)], Look(None, 0.05))
    expected = stats.ttest_rel(scores[0], scores[1]).pvalue
    assert found.p == pytest.approx(expected)
    assert found.decided is bool(expected < 0.05)
