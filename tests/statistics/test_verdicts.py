"""A verdict says what its tests allow: known answers, coherence of interval and p, and errors over families."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradgate.statistics import (
    Word,
    collapse_rate,
    collapsed,
    compare_paired,
    compare_unpaired,
    judge,
    pairs_needed,
)

REFERENCE = dict(enumerate([0.70, 0.71, 0.69, 0.72, 0.70, 0.71, 0.70, 0.69]))


def shifted(by: float, noise: float, seed: int = 0) -> dict[int, float]:
    """Return scores whose differences have exactly this mean and standard deviation."""
    drawn = np.random.default_rng(seed).normal(size=len(REFERENCE))
    drawn = by + noise * (drawn - drawn.mean()) / drawn.std(ddof=1)
    return {place: value + float(extra) for (place, value), extra in zip(REFERENCE.items(), drawn, strict=True)}


@pytest.mark.parametrize(
    ("by", "noise", "margin", "higher", "word"),
    [
        (0.05, 0.01, 0.01, True, Word.BETTER),
        (0.05, 0.01, 0.01, False, Word.WORSE),
        (-0.05, 0.01, 0.01, True, Word.WORSE),
        (0.0, 0.002, 0.01, True, Word.EQUIVALENT),
        (0.008, 0.012, 0.01, True, Word.NON_INFERIOR),
        (0.0, 0.05, 0.01, True, Word.INCONCLUSIVE),
        (0.0, 0.002, None, True, Word.INCONCLUSIVE),
    ],
)
def test_words(by: float, noise: float, margin: float | None, higher: bool, word: Word) -> None:
    (verdict,) = judge([compare_paired(shifted(by, noise), REFERENCE)], higher, margin)
    assert verdict.word is word


def test_margin_tests_are_two_one_sided_t_tests() -> None:
    ours = shifted(0.002, 0.006)
    (verdict,) = judge([compare_paired(ours, REFERENCE)], True, 0.01)
    differences = [ours[seed] - REFERENCE[seed] for seed in REFERENCE]
    above = stats.ttest_1samp(differences, -0.01, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, 0.01, alternative="less").pvalue
    assert verdict.non_inferior == (above < 0.05)
    assert verdict.equivalent == (max(above, below) < 0.05)


@given(st.lists(st.tuples(st.floats(-0.05, 0.05), st.floats(0.001, 0.05)), min_size=1, max_size=12))
def test_corrected_interval_agrees_with_p(arms: list[tuple[float, float]]) -> None:
    comparisons = [compare_paired(shifted(by, noise, place), REFERENCE) for place, (by, noise) in enumerate(arms)]
    for verdict in judge(comparisons, True, 0.01):
        assert verdict.family == len(arms)
        assert verdict.interval_corrected is not None
        assert verdict.p_corrected is not None
        low, high = verdict.interval_corrected
        assert (verdict.p_corrected < 0.05) == (low > 0 or high < 0)


def test_one_arm_alone_keeps_its_interval() -> None:
    (verdict,) = judge([compare_paired(shifted(0.01, 0.01), REFERENCE)], True)
    assert verdict.interval_corrected == pytest.approx(verdict.comparison.interval)


def test_needed_pairs_of_an_inconclusive_verdict() -> None:
    comparison = compare_paired(shifted(0.012, 0.03), REFERENCE)
    (verdict,) = judge([comparison], True)
    assert verdict.word is Word.INCONCLUSIVE
    assert comparison.cohens_d is not None
    assert verdict.pairs_needed == pairs_needed(comparison.cohens_d, 0.8, 0.05)


def test_one_seed_is_inconclusive() -> None:
    (verdict,) = judge([compare_paired({0: 0.9}, {0: 0.1})], True, 0.01)
    assert (verdict.word, verdict.p_corrected, verdict.family) == (Word.INCONCLUSIVE, None, 0)


def test_family_error_stays_below_the_level() -> None:
    draw, wrong = np.random.default_rng(3), 0
    for _ in range(300):
        reference = dict(enumerate(draw.normal(0.7, 0.02, 5).tolist()))
        arms = [dict(enumerate(draw.normal(0.7, 0.02, 5).tolist())) for _ in range(6)]
        words = [each.word for each in judge([compare_paired(arm, reference) for arm in arms], True)]
        wrong += any(word in (Word.BETTER, Word.WORSE) for word in words)
    assert wrong <= 15 + 3 * (300 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("unit", [1.0, 1e-7])
def test_welch_is_scipys(unit: float) -> None:
    ours, theirs = ([unit * score for score in scores] for scores in ([0.7, 0.72, 0.75, 0.71], [0.68, 0.6, 0.69]))
    found = stats.ttest_ind(ours, theirs, equal_var=False)
    comparison = compare_unpaired(ours, theirs)
    assert comparison.p == pytest.approx(found.pvalue)
    assert comparison.interval == pytest.approx(found.confidence_interval(0.95))


def test_collapsed_runs_are_found() -> None:
    scores = {0: 0.90, 1: 0.91, 2: 0.89, 3: 0.51, 4: 0.90}
    assert collapsed(scores, True) == {3}
    assert collapsed(scores, False) == frozenset()
    assert collapsed({0: 0.60, 1: 0.51, 2: 0.65}, True, guessed=0.51) == {1}
    assert collapsed({0: 0.51, 1: 0.51, 2: 0.51, 3: 0.60}, True, guessed=0.51) == {0, 1, 2}  # as is their median
    assert collapsed({0: 0.50, 1: 0.51}, True, guessed=0.51) == {0, 1}
    assert collapsed({0: 0.90, 1: 0.82, 2: 0.91}, True) == frozenset()  # within ten points
    assert collapsed({0: 12.0, 1: 3.0, 2: 11.0}, True) == frozenset()  # no share


def test_collapse_rate_is_wilsons() -> None:
    found = stats.binomtest(2, 10).proportion_ci(method="wilson")
    assert collapse_rate(2, 10).interval == pytest.approx((found.low, found.high))
