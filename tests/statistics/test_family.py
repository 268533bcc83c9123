"""Several methods at once: corrections by hand, no false alarms, and what few seeds cannot say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradgate.errors import DataError
from gradgate.statistics import compare_paired, holm, pairs_needed, weigh


def compared(*differences):
    """One comparison for each list of differences, to a reference that scored 0 with every seed."""
    return [compare_paired(dict(enumerate(d)), dict.fromkeys(range(len(d)), 0.0)) for d in differences]


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_passes_over_tests_that_were_not_done():
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert holm([]) == []


@pytest.mark.parametrize("p", [float("nan"), -0.1, 1.1])
def test_holm_refuses_what_is_no_p_value(p):
    with pytest.raises(DataError, match="between 0 and 1"):
        holm([0.5, p])


@given(st.lists(st.floats(0.0, 1.0), max_size=10))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p_values):
    corrected = holm(p_values)
    for p, q in zip(p_values, corrected, strict=True):
        assert p <= q <= min(1.0, len(p_values) * p) or q == pytest.approx(p)
    ranked = [q for _, q in sorted(zip(p_values, corrected, strict=True))]
    assert ranked == sorted(ranked)


def _normal(random, shape):
    return random.normal(0.8, 0.02, shape)


def _accuracies(random, shape):
    return random.binomial(200, 0.8, shape) / 200


@pytest.mark.parametrize("draw", [_normal, _accuracies], ids=["normal scores", "accuracies on 200 rows"])
def test_methods_that_do_not_differ_raise_at_most_five_percent_false_alarms(draw):
    """The chance of any false alarm in a study of four methods and a reference, with 8 seeds that move all alike."""
    studies, methods, seeds = 400, 4, 8
    random = np.random.default_rng(7)
    scores = draw(random, (studies, methods + 1, seeds)) + random.normal(0.0, 0.01, (studies, 1, seeds))
    alarms = np.zeros(3, dtype=int)
    for reference, *others in scores:
        theirs = dict(enumerate(reference))
        found = [compare_paired(dict(enumerate(other)), theirs) for other in others]
        families = ([c.p for c in found], holm([c.p for c in found]), holm([c.wilcoxon_p for c in found]))
        alarms += [any(p is not None and p < 0.05 for p in family) for family in families]
    uncorrected, t, wilcoxon = alarms
    most = stats.binom.ppf(0.999, studies, 0.05)
    assert t <= most
    assert wilcoxon <= most
    assert uncorrected > most, "without the correction the same studies raise too many"


def test_every_kind_of_test_is_corrected_among_its_own():
    differences = [0.02, 0.03, 0.02, 0.05, 0.04], [0.02, -0.03, 0.02, 0.05, 0.04], [0.01] * 5, [0.0] * 5
    comparisons = compared(*differences)
    evidence = weigh(comparisons)
    assert [found.p_holm for found in evidence] == holm([c.p for c in comparisons])
    # The constant difference has no t-test, but all its signs agree.
    assert [c.p is None for c in comparisons] == [False, False, True, True]
    assert [found.wilcoxon_holm for found in evidence] == holm([0.0625, comparisons[1].wilcoxon_p, 0.0625, None])
    assert [found.bootstrap is None for found in evidence] == [False, False, True, True]


def test_the_pairs_needed_are_more_under_correction():
    first, second = weigh(compared([0.02, 0.03, -0.02, 0.05], [0.01, -0.03, 0.02, 0.05]))
    for found in (first, second):
        d = found.comparison.cohens_d
        assert (found.needed, found.needed_holm) == (pairs_needed(d), pairs_needed(d, level=0.025))
        assert found.needed < found.needed_holm
    (alone,) = weigh(compared([0.01] * 4))
    assert (alone.needed, alone.needed_holm) == (None, None)


def test_too_few_seeds_are_said():
    (five,), (six,) = weigh(compared([0.1, 0.2, 0.3, 0.4, 0.5])), weigh(compared([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert five.remarks == (
        "With 5 seeds, Wilcoxon's p cannot fall below 0.0625: p < 0.05 takes 6 seeds with a difference.",
    )
    assert six.remarks == ()
    three, level = weigh(compared([0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0]))
    assert three.remarks == (
        "3 seeds: only very large differences can be detected.",
        "With 3 seeds, Wilcoxon's p cannot fall below 0.25 after Holm's correction for 2 tests: "
        "p < 0.05 takes 7 seeds with a difference.",
    )
    assert level.remarks == (
        "With 7 seeds, 1 of them tied, Wilcoxon's p cannot fall below 0.0625 after Holm's correction for 2 tests: "
        "p < 0.05 takes 7 seeds with a difference.",
    )
    (lone,) = weigh(compared([0.1, 0.0, 0.0, 0.0]))
    assert lone.comparison.wilcoxon_p is None
    assert lone.remarks == ("Only 1 of 4 seeds shows a difference: too few for Wilcoxon's test.",)
    assert weigh(compared([0.1]))[0].remarks == ("1 common seed: no interval or test.",)
