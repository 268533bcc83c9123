"""Compare how much scores vary over seeds: one F test per learning rate, corrected over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from gradgate.papers.claims.base import FAILS, HOLDS, UNKNOWN, ClaimCheck
from gradgate.papers.claims.numbers import SEARCH_SEEDS, SEED_SPREAD, Key, Numbers, Place

LEVEL = 0.05
_LARGEST = 10.0
"""A ratio of standard deviations that no two methods are expected to exceed."""


def varies_more(numbers: Numbers, pairs: Sequence[tuple[Place, str, str]]) -> list[ClaimCheck]:
    """Check at each learning rate of a search whether a method varies more over seeds than another.

    The rates were chosen and are not a sample of rates, so that each is a finding of its own: the ratio of the two
    standard deviations with its interval at level 0.05 over the number of findings.

    Args:
        pairs: a place, the method that is claimed to vary more, and the other.

    Source:
        The F test of two variances of normal scores; Bonferroni's correction.
    """
    rates = {pair: _rates(numbers, pair) for pair in pairs}
    level = LEVEL / max(1, sum(map(len, rates.values())))
    return [_ratio(numbers, *pair, rate, len(own), level) for pair, own in rates.items() for rate in own]


def _rates(numbers: Numbers, pair: tuple[Place, str, str]) -> list[int]:
    place, *methods = pair
    found = [numbers.scores[Key(place, method, SEED_SPREAD)] for method in methods]
    return sorted(set.intersection(*map(set, found)))


def _ratio(numbers: Numbers, place: Place, one: str, other: str, rate: int, rates: int, level: float) -> ClaimCheck:
    what = f"{place}, rate {rate + 1} of {rates} from the lowest: deviation over seeds, {one} / {other}"
    spreads, seeds = (
        [numbers.scores.get(Key(place, method, on), {}).get(rate) for method in (one, other)]
        for on in (SEED_SPREAD, SEARCH_SEEDS)
    )
    ours, theirs = (0.0 if spread is None else spread for spread in spreads)
    shown = f"{ours:.2f} / {theirs:.2f}"
    keys = [Key(place, method, SEED_SPREAD) for method in (one, other)]
    arms = tuple((key.method, arm) for key in keys for arm in numbers.arms.get(key, ()))
    several = any(len(numbers.arms.get(key, ())) > 1 for key in keys)
    apart = several or len({numbers.sources.get(key) for key in keys}) > 1
    if apart or None in seeds or theirs == 0 or ours == 0:
        why = "no spread to test" if None not in seeds else "the number of seeds was not recorded"
        why = "the rates are not those of one study" if apart else why
        found = f"{what} = {shown}"
        return ClaimCheck(UNKNOWN, found, "above 1", (why,), compared=True, arms=arms, tasks=(place.task,))
    counts = [int(count or 0) for count in seeds]
    low, high = _interval(ours / theirs, counts, level)
    state = HOLDS if low > 1 else FAILS if high < 1 else UNKNOWN
    found = f"{what} = {ours / theirs:.2f} [{low:.2f} to {high:.2f}], {counts[0]} seeds"
    least = ours / theirs / low  # what a ratio must exceed for an interval above 1
    hopeless = state == UNKNOWN and least > _LARGEST
    limits = (f"with these seeds no ratio below {least:.0f} is shown",) * hopeless
    return ClaimCheck(state, found, "above 1", limits, compared=True, arms=arms, tasks=(place.task,), seeds=min(counts))


def _interval(ratio: float, seeds: Sequence[int], level: float) -> tuple[float, float]:
    """Return the interval of a ratio of two standard deviations."""
    from scipy import stats  # takes a second, which listing claims need not wait for

    ours, theirs = (count - 1 for count in seeds)
    return (
        float(ratio / stats.f.isf(level / 2, ours, theirs) ** 0.5),
        float(ratio / stats.f.ppf(level / 2, ours, theirs) ** 0.5),
    )
