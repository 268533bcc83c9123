"""The multi-bootstrap: known variances of seeds and rows, equal results for equal seeds, and what has no answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gradgate.errors import DataError
from gradgate.statistics import RowNoise, multi_bootstrap
from gradgate.statistics.multibootstrap import Array, score_interval


def mean(sums: Array) -> Array:
    return np.asarray(sums[..., 0] / sums[..., 1])


def counts(values: Array) -> Array:
    return np.stack([values, np.ones_like(values)], axis=-1)


def noise(ours: Array, theirs: Array, **asked: int) -> RowNoise:
    found = multi_bootstrap([counts(ours)], [counts(theirs)], mean, **asked)
    assert found is not None
    return found


def parts(of_seeds: float, of_rows: float, of_both: float, seeds: int = 6, rows: int = 400) -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    drawn = of_seeds * draw.normal(size=(seeds, 1)) + of_rows * draw.normal(size=(1, rows))
    return drawn + of_both * draw.normal(size=(seeds, rows)), np.zeros((seeds, rows))


@pytest.mark.parametrize(
    ("of_seeds", "of_rows", "of_both", "largest"),
    [(1.0, 0.1, 0.1, "seeds"), (0.001, 2.0, 0.1, "rows"), (0.001, 0.001, 2.0, "rows")],
)
def test_the_largest_part_is_found(of_seeds: float, of_rows: float, of_both: float, largest: str) -> None:
    found = noise(*parts(of_seeds, of_rows, of_both))
    shares = {"seeds": found.variance_seeds, "rows": found.variance_rows, "rest": found.variance_rest}
    assert sum(shares.values()) == pytest.approx(1)
    if of_both < 1:
        assert shares[largest] > 0.8
    else:
        assert shares["rest"] > 0.2


def test_the_error_is_that_of_both_effects() -> None:
    ours, theirs = parts(0.1, 2.0, 0.5)
    found = noise(ours, theirs, resamples=4000)
    expected = ours.mean(axis=1).var(ddof=1) / 6 + ours.mean(axis=0).var() / 400
    assert found.error**2 == pytest.approx(expected, rel=0.1)


def test_without_noise_of_rows_it_is_the_t_interval() -> None:
    effects = np.array([0.1, 0.3, -0.2, 0.4, 0.0])
    found = noise(np.repeat(effects[:, None], 50, axis=1), np.zeros((5, 50)))
    expected = stats.t.interval(0.95, 4, effects.mean(), stats.sem(effects))
    assert found.interval_t == pytest.approx(expected)
    assert (found.variance_rows, found.freedom) == pytest.approx((0.0, 4.0), abs=1e-9)


@pytest.mark.parametrize("of_rows", [0.1, 0.5, 1.0, 2.0])
def test_rows_never_make_the_interval_narrower(of_rows: float) -> None:
    for rows in (100, 400):
        ours, theirs = parts(0.1, of_rows, 0.3, seeds=4, rows=rows)
        low, high = noise(ours, theirs, resamples=200).interval_t
        over_seeds = stats.t.interval(0.95, 3, ours.mean(), stats.sem(ours.mean(axis=1)))
        assert low <= over_seeds[0] + 1e-12
        assert high >= over_seeds[1] - 1e-12


def test_pairing_removes_what_is_shared() -> None:
    draw = np.random.default_rng(1)
    shared, ease = draw.normal(size=(8, 1)), draw.normal(size=(1, 300))
    ours, theirs = (shared + ease + 0.1 * draw.normal(size=(8, 300)) for _ in range(2))
    found = noise(ours, theirs)
    assert found.removed_seeds is not None
    assert found.removed_rows is not None
    assert min(found.removed_seeds, found.removed_rows) > 0.95


def test_equal_seeds_give_equal_results() -> None:
    pair = parts(0.2, 0.5, 0.5)
    assert noise(*pair, seed=3) == noise(*pair, seed=3)
    assert noise(*pair, seed=3) != noise(*pair, seed=4)


def test_splits_are_averaged() -> None:
    ours, theirs = parts(0.2, 0.5, 0.5)
    found = multi_bootstrap([counts(ours), counts(theirs)], [counts(theirs), counts(theirs)], mean)
    assert found is not None
    assert np.mean(found.interval_t) == pytest.approx(ours.mean() / 2)
    assert found.rows == 800


def test_rows_of_a_translated_test_set_are_drawn_together() -> None:
    ours, theirs = (counts(each) for each in parts(0.1, 2.0, 0.5))
    alone = multi_bootstrap([ours], [theirs], mean)
    apart, together = (multi_bootstrap([ours] * 3, [theirs] * 3, mean, translated=each) for each in (False, True))
    assert alone is not None
    assert apart is not None
    # Three copies of a test set say no more than one.
    assert together is not None
    assert (together.rows, together.interval_t) == (alone.rows, pytest.approx(alone.interval_t))
    assert apart.error**2 < 0.5 * alone.error**2


def test_what_cannot_be_resampled() -> None:
    ours, theirs = counts(np.ones((3, 4))), counts(np.ones((3, 5)))
    assert multi_bootstrap([ours], [ours], mean) is None
    assert multi_bootstrap([ours[:1]], [ours[:1]], mean) is None
    with pytest.raises(DataError, match="compared in pairs"):
        multi_bootstrap([ours], [theirs], mean)
    with pytest.raises(DataError, match="Translated splits have equal rows; got 4, 5"):
        multi_bootstrap([ours, theirs], [ours, theirs], mean, translated=True)


def test_the_interval_of_a_share_is_that_of_the_binomial() -> None:
    right = np.array([1.0] * 320 + [0.0] * 80)
    counts = np.stack([right, np.ones_like(right)], axis=1)
    interval = score_interval(counts, lambda sums: sums[..., 0] / sums[..., 1])
    exact = stats.binom(400, 0.8).ppf([0.025, 0.975]) / 400
    assert interval == pytest.approx(exact, abs=0.005)
    assert interval == score_interval(counts, lambda sums: sums[..., 0] / sums[..., 1])


def test_an_interval_needs_two_rows_and_a_score() -> None:
    assert score_interval(np.ones((1, 2)), lambda sums: sums[..., 0] / sums[..., 1]) is None
    assert score_interval(np.ones((3, 2)), lambda sums: sums[..., 0] * np.nan) is None
