"""Compute what claims compare: functions of the scores of one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from statistics import fmean, stdev

from gradgate.papers.claims.numbers import Lookup, Place

Quantity = Callable[[Lookup], float]


def value(place: Place, method: str, on: str) -> Quantity:
    """Return a quantity: a method's score."""
    return lambda score: score(place, method, on)


def minus(place: Place, one: str, other: str, on: str) -> Quantity:
    """Return a quantity: the score of the first method minus that of the second."""
    return lambda score: score(place, one, on) - score(place, other, on)


def mean_minus(places: Sequence[Place], one: str, other: str, on: str) -> Quantity:
    """Return a quantity: the mean difference of two methods over several places."""
    return lambda score: fmean(score(place, one, on) - score(place, other, on) for place in places)


def place_minus(one: Place, other: Place, method: str, on: str) -> Quantity:
    """Return a quantity: a method's score in the first place minus that in the second."""
    return lambda score: score(one, method, on) - score(other, method, on)


def gain_gap(place: Place, one: str, other: str, named: Sequence[str], rest: Sequence[str]) -> Quantity:
    """Return a quantity: the smallest gain of the named languages minus the largest gain of the rest."""

    def gap(score: Lookup) -> float:
        gains = {on: score(place, one, on) - score(place, other, on) for on in (*named, *rest)}
        return min(gains[on] for on in named) - max(gains[on] for on in rest)

    return gap


def t_gap(groups: Sequence[tuple[Place, Sequence[str]]], one: str, other: str, reference: str) -> Quantity:
    """Return a quantity: the paired t statistic of the first method minus the second's, averaged over tasks.

    A task's pairs are its languages; both methods are compared with the reference (GradDrop, Fig. 3).
    """

    def t(score: Lookup, place: Place, method: str, languages: Sequence[str]) -> float:
        gains = [score(place, method, on) - score(place, reference, on) for on in languages]
        return fmean(gains) / (stdev(gains) / sqrt(len(gains)))

    return lambda score: fmean(t(score, place, one, on) - t(score, place, other, on) for place, on in groups)


def gap_difference(place: Place, one: str, other: str, on: str, than: str) -> Quantity:
    """Return a quantity: the difference of two methods on one language or average minus that on another."""
    first, second = minus(place, one, other, on), minus(place, one, other, than)
    return lambda score: first(score) - second(score)


def quality(pairs: Sequence[tuple[Place, str]], method: str, reference: str) -> Quantity:
    """Return a quantity: a method's mean ratio to the reference, see :func:`gradgate.statistics.relative_quality`."""

    def share(score: Lookup) -> float:
        from gradgate.statistics import relative_quality  # brings numpy, which listing the claims does without

        found = relative_quality(
            [score(place, method, on) for place, on in pairs], [score(place, reference, on) for place, on in pairs]
        )
        if found is None:
            raise ZeroDivisionError
        return found

    return share


def ratio(place: Place, one: str, other: str, on: str) -> Quantity:
    """Return a quantity: the first method's number divided by the second's."""
    return lambda score: score(place, one, on) / score(place, other, on)
