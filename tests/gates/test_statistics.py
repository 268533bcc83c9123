"""The gate's hash as a random-number suite sees it. All keys are fixed, so that no test fails by chance.

A statistic passes where a truly random source would put it in all but two of ten thousand cases; the largest of many
statistics where it lies within five standard errors.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2, kstest, norm, poisson

from gradgate import gates
from gradgate.gates import reference
from gradgate.gates.key import WORD, block_key
from support.crossed import some_fast

Words = NDArray[np.uint32]

COUNT = 2**20
RARE = 1e-4
MANY = 5.0
# A real key, and keys that a weak mixer would give away.
KEYS = {
    "drawn": gates.key(seed=0, stream="graddrop", name="encoder.layer.0.output.dense.weight", draw=7),
    "zeros": 0,
    "ones": 2**64 - 1,
    "one": 1,
    "high": 2**63,
}


def words(key: int, count: int = COUNT, low: int = 0) -> Words:
    return reference.hash_words(low, count, block_key(key, 0), "cpu").numpy().astype(np.uint32)


def bits(these: Words) -> NDArray[np.bool_]:
    """Shape ``(len(these), 32)``, the lowest bit first."""
    return np.unpackbits(these.astype("<u4").view(np.uint8), bitorder="little").reshape(-1, 32).astype(bool)


def off_half(these: Words) -> float:
    """The largest distance, in standard errors, of the share of words in which a bit is set from one half."""
    return float(np.abs(bits(these).mean(axis=0) - 0.5).max() * 2 * len(these) ** 0.5)


def fits(counts: NDArray[np.integer], expected: NDArray[np.floating] | float) -> bool:
    """Whether counts lie about what is expected as those of a random source do: neither further nor closer."""
    statistic = ((counts - expected) ** 2 / expected).sum()
    return bool(chi2.ppf(RARE, len(counts) - 1) < statistic < chi2.ppf(1 - RARE, len(counts) - 1))


def is_uniform(cells: NDArray[np.integer], number: int) -> bool:
    return fits(np.bincount(cells, minlength=number), len(cells) / number)


def correlation(one: Words, other: Words) -> float:
    """In standard errors."""
    return product(centred(one), centred(other))


def centred(these: Words) -> NDArray[np.floating]:
    """With the mean 0 and the variance 1."""
    return (these / 2**32 - 0.5) * 12**0.5


def product(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    return float(abs(x @ y) / len(x) ** 0.5)


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow if name in ("one", "high") else ()) for name in KEYS],
    scope="module",
)
def stream(request: pytest.FixtureRequest) -> Words:
    """The hashes of a tensor's first elements."""
    return words(KEYS[request.param])


# One key, elements in a row.


def test_words_are_uniform_over_their_range(stream: Words) -> None:
    assert RARE < kstest(stream / 2**32, "uniform").pvalue < 1 - RARE
    assert is_uniform(stream >> 16, 2**16)


@pytest.mark.parametrize("byte", range(4))
def test_every_byte_of_a_word_is_uniform(stream: Words, byte: int) -> None:
    assert is_uniform(stream >> np.uint32(8 * byte) & 0xFF, 256)


def test_each_of_the_32_bits_is_balanced(stream: Words) -> None:
    assert off_half(stream) < MANY


def test_no_bit_of_a_word_tells_of_another(stream: Words) -> None:
    signs = np.where(bits(stream[: COUNT // 4]), np.float32(1), np.float32(-1))
    between = signs.T @ signs / len(signs) ** 0.5
    np.fill_diagonal(between, 0.0)
    assert np.abs(between).max() < MANY


def test_words_do_not_correlate_at_any_lag_up_to_64(stream: Words) -> None:
    values = centred(stream)
    assert max(product(values[lag:], values[:-lag]) for lag in range(1, 65)) < MANY


@pytest.mark.parametrize("lag", [1, 2, 64, 768, 2**15])
def test_no_bit_tells_of_itself_some_elements_on(stream: Words, lag: int) -> None:
    assert off_half(stream[lag:] ^ stream[:-lag]) < MANY


@pytest.mark.parametrize("lag", [1, 768])
def test_pairs_of_elements_fill_the_square_evenly(stream: Words, lag: int) -> None:
    at = np.arange(COUNT) // lag % 2 == 0  # no element in two pairs
    one, other = stream[:-lag][at[:-lag]], stream[lag:][at[:-lag]]
    assert is_uniform((one >> 26) * 64 + (other >> 26), 64**2)


def test_three_elements_in_a_row_come_in_all_orders_alike(stream: Words) -> None:
    a, b, c = stream[: COUNT // 3 * 3].reshape(-1, 3).T
    orders = (a < b) * 4 + (b < c) * 2 + (a < c)
    counts = np.bincount(orders, minlength=8)
    assert counts[[1, 6]].tolist() == [0, 0]  # which no three numbers come in
    assert fits(counts[[0, 2, 3, 4, 5, 7]], len(a) / 6)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_a_mask_has_as_many_runs_as_chance_gives(stream: Words, rate: float) -> None:
    passes = stream < rate * 2**32
    ones = passes.mean()
    runs = 1 + np.count_nonzero(passes[1:] != passes[:-1])
    expected, spread = 1 + 2 * COUNT * ones * (1 - ones), 2 * COUNT**0.5 * ones * (1 - ones)
    assert abs(runs - expected) / spread < norm.ppf(1 - RARE)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_gaps_between_elements_that_pass_are_as_long_as_chance_makes_them(stream: Words, rate: float) -> None:
    gaps = np.diff(np.flatnonzero(stream < rate * 2**32)) - 1
    longest = int(np.log(1e-3) / np.log(1 - rate))
    shares = rate * (1 - rate) ** np.arange(longest)
    expected = np.append(shares, 1 - shares.sum()) * len(gaps)
    assert fits(np.bincount(np.minimum(gaps, longest)), expected)


def test_spacings_of_birthdays_coincide_as_often_as_chance_makes_them(stream: Words) -> None:
    # Marsaglia's test: 512 birthdays in a year of 2**24 days; equal spacings are Poisson with mean 512**3 / 2**26.
    birthdays = np.sort((stream >> 8).reshape(-1, 512), axis=1)
    spacings = np.sort(np.diff(birthdays, axis=1), axis=1)
    repeats = np.count_nonzero(np.diff(spacings, axis=1) == 0, axis=1)
    counts = np.bincount(np.minimum(repeats, 7), minlength=8)
    expected = poisson.pmf(np.arange(8), 512**3 / 2**26) * len(birthdays)
    expected[7] = len(birthdays) - expected[:7].sum()
    assert fits(counts, expected)


def test_no_two_elements_share_a_word(stream: Words) -> None:
    assert np.diff(np.sort(stream)).all()  # the hash permutes each block of 2**32 elements


# One bit changed.


@some_fast("name", list(KEYS), ["zeros", "drawn"])
def test_a_changed_bit_of_the_index_changes_each_bit_of_the_word_half_the_time(name: str) -> None:
    key, start, count = KEYS[name], 5 * 2**16, 2**16
    before = words(key, count, start)
    for bit in range(32):
        if 2**bit < count:
            pairs = before.reshape(-1, 2, 2**bit)
            changed = (pairs[:, 0] ^ pairs[:, 1]).ravel()
        else:
            changed = before ^ words(key, count, start ^ 1 << bit)
        assert off_half(changed) < MANY, bit


@some_fast("name", list(KEYS), ["zeros", "drawn"])
def test_a_changed_bit_of_the_key_changes_each_bit_of_the_word_half_the_time(name: str) -> None:
    key, count = KEYS[name], 2**16
    before = words(key, count)
    for bit in range(16, 64):  # the lowest 16 meet the index in an exclusive or, so the test above covers them
        assert off_half(before ^ words(key ^ 1 << bit, count)) < MANY, bit


# Related keys.

RELATED = {
    "draws": [{"draw": draw} for draw in range(24)],
    "seeds": [{"seed": seed} for seed in range(24)],
    "names": [{"name": f"encoder.layer.{i}.{part}.weight"} for i in range(12) for part in ("query", "key")],
    "streams": [{"stream": stream} for stream in ("graddrop", "graddrop-epoch", "mixout", "noise", "lisa")],
}


def key_of(**change: object) -> int:
    return gates.key(**{"seed": 0, "stream": "graddrop", "name": "layer.weight", "draw": 0, **change})  # type: ignore[arg-type]


@pytest.fixture(params=RELATED, scope="module")
def related(request: pytest.FixtureRequest) -> list[Words]:
    """The same elements under keys that differ in one respect."""
    return [words(key_of(**change), 2**16) for change in RELATED[request.param]]


def test_words_under_related_keys_do_not_correlate(related: list[Words]) -> None:
    assert max(correlation(one, other) for one, other in combinations(related, 2)) < MANY


def test_no_bit_tells_of_itself_under_a_related_key(related: list[Words]) -> None:
    assert max(off_half(one ^ other) for one, other in pairwise(related)) < MANY


def test_pairs_under_related_keys_fill_the_square_evenly(related: list[Words]) -> None:
    ones, others = np.concatenate(related[0:-1:2]), np.concatenate(related[1::2])
    assert is_uniform((ones[: len(others)] >> 26) * 64 + (others[: len(ones)] >> 26), 64**2)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_an_element_passes_in_as_many_of_64_draws_as_chance_gives(rate: float) -> None:
    passed = sum((words(key_of(draw=draw), 2**15) < rate * 2**32).astype(int) for draw in range(64))
    law = binom(64, rate)
    low, high = int(law.ppf(1e-3)), int(law.ppf(1 - 1e-3))
    expected = law.pmf(np.arange(low, high + 1))
    expected[0], expected[-1] = law.cdf(low), law.sf(high - 1)
    assert fits(np.bincount(np.clip(passed, low, high) - low), expected * len(passed))


def test_keys_of_nearby_draws_never_collide() -> None:
    keys = np.array(
        [
            key_of(seed=seed, stream=stream, name=f"layers.{layer}.weight", draw=draw)
            for seed in range(4)
            for stream in ("graddrop", "mixout")
            for layer in range(12)
            for draw in range(500)
        ],
        dtype=np.uint64,
    )
    assert len(np.unique(keys)) == len(keys)
    for half in (keys & np.uint64(WORD), keys >> np.uint64(32)):
        half = half.astype(np.uint32)
        assert off_half(half) < MANY
        assert is_uniform(half >> 24, 256)
        # Two masks with one half in common are shuffles of each other; chance alone brings 0.27 such pairs here.
        assert len(half) - len(np.unique(half)) <= poisson.ppf(1 - RARE, len(half) ** 2 / 2**33)
