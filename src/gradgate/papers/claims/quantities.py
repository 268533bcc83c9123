"""What claims compare: functions of the scores of one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from statistics import fmean, stdev

from gradgate.papers.claims.numbers import Lookup, Place

Quantity = Callable[[Lookup], float]


def value(place: Place, method: str, on: str) -> Quantity:
    """What a method reached."""
    return lambda score: score(place, method, on)


def minus(place: Place, one: str, other: str, on: str) -> Quantity:
    """How much the first method is above the second."""
    return lambda score: score(place, one, on) - score(place, other, on)


def mean_minus(places: Sequence[Place], one: str, other: str, on: str) -> Quantity:
    """The same, the mean over several places."""
    return lambda score: fmean(score(place, one, on) - score(place, other, on) for place in places)


def place_minus(one: Place, other: Place, method: str, on: str) -> Quantity:
    """How much more a method reaches in the first place than in the second."""
    return lambda score: score(one, method, on) - score(other, method, on)


def gain_gap(place: Place, one: str, other: str, named: Sequence[str], rest: Sequence[str]) -> Quantity:
    """The smallest gain of the named languages minus the largest gain of the rest."""

    def gap(score: Lookup) -> float:
        gains = {on: score(place, one, on) - score(place, other, on) for on in (*named, *rest)}
        return min(gains[on] for on in named) - max(gains[on] for on in rest)

    return gap


def t_gap(groups: Sequence[tuple[Place, Sequence[str]]], one: str, other: str, reference: str) -> Quantity:
    """How much higher the paired t statistic of the first method is than the second's, the mean over tasks.

    A task's pairs are its languages; both methods are held against the reference (GradDrop, Fig. 3).
    """

    def t(score: Lookup, place: Place, method: str, languages: Sequence[str]) -> float:
        gains = [score(place, method, on) - score(place, reference, on) for on in languages]
        return fmean(gains) / (stdev(gains) / sqrt(len(gains)))

    return lambda score: fmean(t(score, place, one, on) - t(score, place, other, on) for place, on in groups)


def gap_difference(place: Place, one: str, other: str, on: str, than: str) -> Quantity:
    """How much larger the difference of two methods is on one language or average than on another."""
    first, second = minus(place, one, other, on), minus(place, one, other, than)
    return lambda score: first(score) - second(score)


def quality(pairs: Sequence[tuple[Place, str]], method: str, reference: str) -> Quantity:
    """The relative quality of a method over tasks or languages, as :func:`gradgate.statistics.relative_quality`."""

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
    """The first method's number over the second's."""
    return lambda score: score(place, one, on) / score(place, other, on)
