"""Bootstrap intervals: scipy's, repeatable, and given for every sample that has spread."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gradgate.statistics import bootstrap_interval

samples = st.lists(st.integers(-1000, 1000), min_size=2, max_size=12).map(lambda counts: [c / 1000 for c in counts])


@settings(deadline=None, max_examples=30)
@given(samples)
def test_intervals_are_scipys_and_lie_within_the_values(values):
    found = bootstrap_interval(values)
    if found is None:
        assert len(set(values)) == 1
        return
    expected = stats.bootstrap((values,), np.mean, method="BCa", rng=np.random.default_rng(0)).confidence_interval
    assert (found.low, found.high, found.method) == (expected.low, expected.high, "BCa")
    assert min(values) - 1e-12 <= found.low <= found.high <= max(values) + 1e-12


def test_two_values_are_their_own_interval():
    found = bootstrap_interval([0.7, 0.8])
    assert (found.low, found.high) == pytest.approx((0.7, 0.8))


def test_exchanging_the_signs_mirrors_the_interval():
    values = [0.1, 0.4, 0.2, 0.9, 0.3]
    there, back = bootstrap_interval(values), bootstrap_interval([-value for value in values])
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_equal_seeds_give_equal_intervals():
    values = [0.11, 0.42, 0.23, 0.97, 0.35, 0.61]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values) != bootstrap_interval(values, seed=1)


def test_where_bca_is_not_defined_percentiles_are_given():
    # The cubes of such small numbers are 0, and so is what they are divided by.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bootstrap_interval([1e-150, 2e-150, 4e-150])
    assert found.method == "percentile"
    assert (found.low, found.high) == pytest.approx((1e-150, 4e-150))


@pytest.mark.parametrize("values", [[], [0.5], [0.3, 0.1 + 0.2, 0.3]])
def test_without_spread_there_is_no_interval(values):
    assert bootstrap_interval(values) is None
