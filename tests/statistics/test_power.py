"""Effect sizes, and the pairs that it takes to see one: published values, another distribution, and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gradgate.errors import UsageError
from gradgate.statistics import (
    detectable,
    deviation_interval,
    equivalence_power,
    hedges_g,
    paired_power,
    pairs_for_equivalence,
    pairs_needed,
)


@pytest.mark.parametrize(("d", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (-0.5, 34)])
def test_pairs_needed_as_tables_of_power_give_them(d, pairs):
    # Two-sided paired t-test, level 0.05, power 0.8: the usual small, medium and large effect.
    assert pairs_needed(d) == pairs


@settings(deadline=None)
@given(st.floats(0.01, 30.0), st.integers(2, 200), st.sampled_from([0.05, 0.01, 0.05 / 7]))
def test_power_is_that_of_the_squared_statistic(d, n, level):
    # t squared is a noncentral F with 1 and n - 1 degrees of freedom.
    expected = stats.ncf.sf(stats.f.isf(level, 1, n - 1), 1, n - 1, n * d * d)
    assert paired_power(d, n, level) == pytest.approx(expected, abs=1e-5)


def test_the_power_is_what_a_simulation_finds():
    n, repeats = pairs_needed(0.9), 20_000
    draws = np.random.default_rng(0).normal(0.9, 1.0, (repeats, n))
    found = int((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).sum())
    low, high = stats.binom.ppf([0.0005, 0.9995], repeats, paired_power(0.9, n))
    assert low <= found <= high
    assert paired_power(0.9, n) >= 0.8 > paired_power(0.9, n - 1)


@settings(deadline=None)
@given(st.floats(0.02, 50.0))
def test_the_fewest_pairs_are_given(d):
    n = pairs_needed(d)
    assert paired_power(d, n) >= 0.8
    assert n == 2 or paired_power(d, n - 1) < 0.8


def test_effects_too_small_or_absurdly_large():
    assert (pairs_needed(0.0), pairs_needed(1e-9), pairs_needed(1e6)) == (None, None, 2)
    assert paired_power(0.0, 5) == pytest.approx(0.05)


@pytest.mark.parametrize("arguments", [(0.5, 1), (float("nan"), 5), (0.5, 5, 0.0)])
def test_power_refuses_what_has_no_meaning(arguments):
    with pytest.raises(UsageError, match="2 or more pairs"):
        paired_power(*arguments)


def test_a_power_above_one_is_refused():
    with pytest.raises(UsageError, match=r"power is 1\.5"):
        pairs_needed(0.5, power=1.5)


def test_hedges_correction_is_unbiased():
    assert hedges_g(1.0, 2) is None
    assert hedges_g(2.0, 3) == pytest.approx(2 * np.pi**-0.5)
    # The mean of d is too large by the factor; the mean of g is the true effect.
    draws = np.random.default_rng(1).normal(1.0, 1.0, (100_000, 5))
    d = draws.mean(axis=1) / draws.std(axis=1, ddof=1)
    g = d * hedges_g(1.0, 5)
    assert g.mean() == pytest.approx(1.0, abs=4 * g.std() / len(g) ** 0.5)


@pytest.mark.parametrize(("n", "level"), [(2, 0.05), (5, 0.05), (5, 0.05 / 7), (40, 0.05)])
def test_the_detectable_effect_has_the_power(n, level):
    assert paired_power(detectable(n, 0.8, level), n, level) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(("d", "margin", "n"), [(0.0, 1.0, 3), (0.2, 1.0, 12), (-0.5, 0.8, 25), (1.2, 1.0, 8)])
def test_equivalence_power_is_what_simulation_finds(d, margin, n):
    draws = np.random.default_rng(2).normal(d, 1.0, (40_000, n))
    mean, half = draws.mean(axis=1), stats.t.isf(0.05, n - 1) * draws.std(axis=1, ddof=1) / n**0.5
    shown = float(((mean - half > -margin) & (mean + half < margin)).mean())
    expected = equivalence_power(d, margin, n)
    assert shown == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 40_000) ** 0.5)


@pytest.mark.parametrize(("margin", "d"), [(3.0, 0.0), (1.0, 0.0), (0.3, 0.1), (0.01, 0.0)])
def test_the_fewest_pairs_show_equivalence(margin, d):
    n = pairs_for_equivalence(margin, d)
    assert equivalence_power(d, margin, n) >= 0.8
    assert n == 2 or equivalence_power(d, margin, n - 1) < 0.8


def test_equivalence_that_cannot_be_shown():
    assert (pairs_for_equivalence(0.5, 0.5), pairs_for_equivalence(1e-9)) == (None, None)
    with pytest.raises(UsageError, match="a margin above 0"):
        equivalence_power(0.0, 0.0, 5)


def test_deviation_interval_is_of_chi_square():
    draws = np.random.default_rng(4).normal(0.0, 1.0, (40_000, 5)).std(axis=1, ddof=1)
    low, high = deviation_interval(5)
    assert float(((low * draws < 1) & (high * draws > 1)).mean()) == pytest.approx(0.95, abs=0.005)
