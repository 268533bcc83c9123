"""Wilcoxon's signed-rank test: by hand, by trying every sign, and against scipy where scipy is exact."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gradgate.statistics import least_p, pairs_to_reach, rank_biserial, signed_rank_p
from gradgate.statistics.ranks import signed_ranks


@pytest.mark.parametrize(
    ("differences", "p", "effect"),
    [
        ([1, 2, 3, -4], 14 / 16, 0.2),  # rank sums 6 and 4; 7 of 16 sums are 4 or less
        ([1, 2, 3, 4, 5], 2 / 32, 1.0),
        ([-1, -2, -3, -4, -5, -6], 2 / 64, -1.0),
        ([1, 1, -1], 1.0, 1 / 3),  # tied: rank 2 each, sums 0, 2, 4 and 6 with chances 1, 3, 3 and 1 of 8
        ([0, 3, 3, 5], 2 / 8, 1.0),  # the 0 is left out
    ],
)
def test_by_hand(differences, p, effect):
    ranks = signed_ranks(differences)
    assert signed_rank_p(ranks) == p
    assert rank_biserial(ranks) == pytest.approx(effect)


@settings(deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=10))
def test_ties_and_all_are_exact(differences):
    ranks = signed_ranks(differences)
    if len(ranks) < 2:
        assert signed_rank_p(ranks) is None
        return
    seen = abs(sum(ranks))
    sums = [abs(sum(s * r for s, r in zip(signs, ranks, strict=True))) for signs in product((-1, 1), repeat=len(ranks))]
    assert signed_rank_p(ranks) == pytest.approx(sum(value >= seen for value in sums) / len(sums))


@settings(deadline=None)
@given(st.sets(st.integers(1, 10**6), min_size=2, max_size=50), st.randoms(use_true_random=False))
def test_without_ties_it_is_scipys_exact_test(sizes, random):
    differences = [size * random.choice((-1, 1)) for size in sorted(sizes)]
    expected = stats.wilcoxon(differences, method="exact")
    assert signed_rank_p(signed_ranks(differences)) == pytest.approx(expected.pvalue)


def test_no_rank_no_test():
    assert signed_ranks([0.0, 0.0]) == ()
    assert (signed_rank_p(()), signed_rank_p((1.0,)), rank_biserial(())) == (None, None, None)


def test_few_pairs_cannot_reach_a_small_p():
    assert [least_p(n) for n in (2, 5, 6)] == [0.5, 0.0625, 0.03125]
    assert [pairs_to_reach(0.05, tests) for tests in (1, 2, 4)] == [6, 7, 8]
    for n in (5, 6, 8):
        assert signed_rank_p(tuple(float(rank) for rank in range(1, n + 1))) == least_p(n)
