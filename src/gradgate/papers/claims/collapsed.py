"""Leave collapsed runs out of the numbers that claims are checked on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gradgate.papers.claims.numbers import SEARCH_SEEDS, SEED_SPREAD, Key, Numbers, Place

_AVERAGES = ("all", "avg", "target")
"""What tells whether a run in several languages collapsed: the first of these averages that it has."""
_OF_RATES = (SEED_SPREAD, SEARCH_SEEDS)
"""These have a value per learning rate, not per run."""


def without_collapsed(numbers: Numbers) -> Numbers:
    """Return the numbers of the runs that did not collapse, as studies judge it; the same object if none did.

    What predicting the most frequent class scores is not known here, so runs only collapse below their own arm.
    """
    if numbers.exact:
        return numbers
    out = {arm: runs for arm in _arms(numbers) if (runs := _collapsed(numbers, *arm))}
    if not out:
        return numbers
    kept = {key: _kept(key, by_seed, out) for key, by_seed in numbers.scores.items()}
    return replace(numbers, scores={key: by_seed for key, by_seed in kept.items() if by_seed})


def _arms(numbers: Numbers) -> dict[tuple[Place, str], None]:
    return dict.fromkeys((key.place, key.method) for key in numbers.scores)


def _collapsed(numbers: Numbers, place: Place, method: str) -> frozenset[int]:
    from gradgate.statistics import collapsed  # brings scipy, which listing the claims does without

    there = numbers.on(place, method)
    average = next((on for on in _AVERAGES if on in there), None)
    scored_on = numbers.languages(place, method) if average is None else [average]
    shares = ({seed: score / 100 for seed, score in numbers.scores[Key(place, method, on)].items()} for on in scored_on)
    return frozenset[int]().union(*(collapsed(scores, higher_is_better=True) for scores in shares))


def _kept(key: Key, by_seed: Mapping[int, float], out: Mapping[tuple[Place, str], frozenset[int]]) -> dict[int, float]:
    left_out = frozenset() if key.on in _OF_RATES else out.get((key.place, key.method), frozenset())
    return {seed: score for seed, score in by_seed.items() if seed not in left_out}
