"""What few seeds can say: checked by hand and against scipy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gradgate.errors import DataError
from gradgate.statistics import (
    compare_over,
    compare_paired,
    mean_against_best,
    relative_quality,
    signed_rank_p,
    summarize,
)

samples = st.lists(st.integers(0, 1000), min_size=2, max_size=12).map(lambda counts: [c / 1000 for c in counts])


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_summary_by_hand():
    # Mean 3, squared deviations 4 + 1 + 0 + 1 + 4, t(0.975, 4) = 2.7764451.
    summary = summarize([1, 2, 3, 4, 5])
    assert (summary.n, summary.mean, summary.note) == (5, 3.0, None)
    assert summary.sd == pytest.approx(2.5**0.5)
    assert summary.interval == pytest.approx((3 - 2.7764451 * 0.5**0.5, 3 + 2.7764451 * 0.5**0.5))


def test_no_seed_and_one_seed_give_no_interval_and_say_why():
    none, one = summarize([]), summarize([0.7])
    assert (none.n, none.mean, none.sd, none.interval) == (0, None, None, None)
    assert none.note == "no finished seed"
    assert (one.n, one.mean, one.sd, one.interval) == (1, 0.7, None, None)
    assert one.note == "1 seed: no spread, interval or test"


@pytest.mark.parametrize("n", [2, 3])
def test_few_seeds_come_with_a_warning_to_the_reader(n):
    values = [0.1 * place for place in range(n)]
    assert summarize(values).note == f"{n} seeds: only very large differences can be detected"
    assert summarize([*values, 0.9, 0.8]).note is None


def test_equal_scores_have_no_interval():
    # 0.1 + 0.2 is not 0.3 in binary: rounding is no spread.
    summary = summarize([0.3, 0.1 + 0.2, 0.3])
    assert (summary.sd, summary.interval) == (0.0, None)
    assert summary.note == "all 3 seeds scored the same: no interval"


@given(samples)
def test_intervals_are_scipys(values):
    summary = summarize(values)
    if summary.interval is not None:
        expected = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert summary.interval == pytest.approx(expected)


def test_comparison_by_hand():
    # Differences 1, 2, 3: mean 2, sd 1, t = 2 * sqrt(3) = 3.4641 with 2 degrees of freedom, p = 0.0741799.
    ours, theirs = {0: 11.0, 1: 22.0, 2: 33.0}, {0: 10.0, 1: 20.0, 2: 30.0}
    comparison = compare_paired(ours, theirs)
    assert (comparison.n, comparison.difference) == (3, 2.0)
    assert comparison.sd == pytest.approx(1.0)
    assert comparison.t == pytest.approx(2 * 3**0.5)
    assert comparison.p == pytest.approx(0.0741799, abs=1e-7)
    assert comparison.interval == pytest.approx((2 - 4.3026527 / 3**0.5, 2 + 4.3026527 / 3**0.5))
    # All three differences positive: of 8 equally likely signs, 2 lie as far out. g corrects d = 2 by sqrt(1 / pi).
    assert (comparison.wilcoxon_p, comparison.rank_biserial, comparison.differences) == (0.25, 1.0, (1.0, 2.0, 3.0))
    assert (comparison.cohens_d, comparison.hedges_g) == pytest.approx((2.0, 2 * np.pi**-0.5))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=12))
def test_paired_t_tests_are_scipys(pairs):
    ours = {seed: pair[0] / 1000 for seed, pair in enumerate(pairs)}
    theirs = {seed: pair[1] / 1000 for seed, pair in enumerate(pairs)}
    comparison = compare_paired(ours, theirs)
    if comparison.p is not None:
        expected = stats.ttest_rel(list(ours.values()), list(theirs.values()))
        assert (comparison.t, comparison.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-6)
        low, high = expected.confidence_interval(0.95)
        assert comparison.interval == pytest.approx((low, high), rel=1e-6, abs=1e-12)


@given(samples, samples)
def test_exchanging_the_two_sides_changes_the_sign_only(left, right):
    ours, theirs = dict(enumerate(left)), dict(enumerate(right))
    there, back = compare_paired(ours, theirs), compare_paired(theirs, ours)
    assert there.difference == pytest.approx(-back.difference)
    assert there.p == (None if back.p is None else pytest.approx(back.p))
    assert there.wilcoxon_p == back.wilcoxon_p
    assert there.rank_biserial == (None if back.rank_biserial is None else pytest.approx(-back.rank_biserial))


def test_only_common_seeds_are_compared():
    comparison = compare_paired({0: 0.5, 1: 0.6, 7: 0.0}, {1: 0.5, 0: 0.45, 9: 1.0})
    assert comparison.n == 2
    assert comparison.difference == pytest.approx(0.075)


def test_too_few_common_seeds_give_no_test_and_say_why():
    none = compare_paired({0: 0.5}, {1: 0.5})
    one = compare_paired({0: 0.5}, {0: 0.25})
    assert (none.n, none.difference, none.p) == (0, None, None)
    assert none.note == "no seed that both finished: no comparison"
    assert (one.n, one.difference, one.interval, one.p) == (1, 0.25, None, None)
    assert one.note == "1 common seed: no interval or test"


def test_identical_scores_are_no_test():
    comparison = compare_paired({0: 0.1 + 0.2, 1: 0.5}, {0: 0.3, 1: 0.5})
    assert (comparison.difference, comparison.sd, comparison.interval, comparison.p) == (0.0, 0.0, None, None)
    assert comparison.note == "the same score as the reference for all 2 seeds: no test"
    assert (comparison.wilcoxon_p, comparison.rank_biserial, comparison.cohens_d) == (None, None, None)


def test_a_constant_difference_is_no_test():
    comparison = compare_paired({0: 0.72, 1: 0.82, 2: 0.92}, {0: 0.7, 1: 0.8, 2: 0.9})
    assert comparison.difference == pytest.approx(0.02)
    assert (comparison.sd, comparison.interval, comparison.p) == (0.0, None, None)
    assert comparison.note == "the same difference for all 3 seeds: no spread to test against"
    # t is infinite and not given; the signs alone can still be tested.
    assert (comparison.t, comparison.cohens_d, comparison.wilcoxon_p) == (None, None, 0.25)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(DataError, match="must be finite"):
        summarize([0.5, value])
    with pytest.raises(DataError, match=f"must be finite numbers; got {value} for seed 3"):
        compare_paired({0: 0.5, 3: value}, {0: 0.5, 3: 0.5})
    with pytest.raises(DataError, match="for language de"):
        compare_over("language", {"de": {0: value}}, {"de": {0: 0.5}})
    with pytest.raises(DataError, match="for evaluation 2"):
        mean_against_best([0.5, value])


def test_languages_are_pairs_of_means_over_common_seeds():
    ours = {"en": {0: 0.8, 1: 0.9}, "de": {0: 0.7, 1: 0.7, 2: 0.1}, "sw": {0: 0.6}, "zh": {2: 0.5}, "fr": {0: 0.5}}
    theirs = {"en": {0: 0.8, 1: 0.8}, "de": {0: 0.6, 1: 0.5}, "sw": {0: 0.4, 1: 0.9}, "zh": {1: 0.5}}
    comparison = compare_over("language", ours, theirs)
    # de 0.7 - 0.55, en 0.85 - 0.8, sw 0.6 - 0.4; zh and fr have no seed in common.
    assert comparison.differences == pytest.approx((0.15, 0.05, 0.2))
    expected = stats.ttest_1samp([0.15, 0.05, 0.2], 0)
    assert (comparison.n, comparison.t, comparison.p) == (
        3,
        pytest.approx(expected.statistic),
        pytest.approx(expected.pvalue),
    )
    assert comparison.note == "3 languages: only very large differences can be detected"
    assert compare_over("task", {"rte": {0: 0.5}}, {"cola": {0: 0.5}}).note == "no task that both have: no comparison"


def test_rounding_makes_neither_a_difference_nor_a_rank():
    # In binary 0.72 - 0.7 < 0.82 - 0.8; both are 0.02 and share a rank. 0.1 + 0.2 - 0.3 is no difference.
    comparison = compare_paired({0: 0.72, 1: 0.82, 2: 0.1 + 0.2, 3: 0.5}, {0: 0.7, 1: 0.8, 2: 0.3, 3: 0.6})
    assert comparison.ranked == 3
    assert comparison.wilcoxon_p == signed_rank_p((1.5, 1.5, -3.0)) == 1.0


def test_mean_against_best_by_hand():
    run = mean_against_best([0.6, 0.9, 0.75])
    assert (run.n, run.best) == (3, 0.9)
    assert (run.mean, run.gap) == pytest.approx((0.75, 0.15))
    loss = mean_against_best([0.6, 0.9, 0.75], higher_is_better=False)
    assert (loss.best, loss.gap) == pytest.approx((0.6, 0.15))
    with pytest.raises(DataError, match="without an evaluation"):
        mean_against_best([])


def test_relative_quality_is_the_mean_of_ratios_and_not_the_ratio_of_means():
    # Ratios 0.5 and 1.0; the ratio of the means is 1.25 / 1.5.
    assert relative_quality([0.25, 1.0], [0.5, 1.0]) == 0.75
    assert relative_quality([0.5, 1.0], [0.25, 1.0], higher_is_better=False) == 0.75
    assert relative_quality([-0.1, 0.4], [0.4, 0.4]) == pytest.approx(0.375)


@pytest.mark.parametrize(
    ("scores", "reference", "higher"),
    [([], [], True), ([0.5], [0.0], True), ([0.5, 0.5], [0.5, -0.1], True), ([0.0], [0.5], False), ([1], [0], False)],
)
def test_relative_quality_has_no_meaning_without_scores_above_zero(scores, reference, higher):
    assert relative_quality(scores, reference, higher) is None


def test_relative_quality_pairs_each_score_with_one_of_the_reference():
    with pytest.raises(DataError, match="got 2 and 1"):
        relative_quality([0.5, 0.6], [0.5])
