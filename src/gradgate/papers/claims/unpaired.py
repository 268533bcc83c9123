"""Compare quantities of runs that no seed pairs: each group of runs is a sample of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from gradgate.papers.claims.numbers import Key, Lookup, Numbers

if TYPE_CHECKING:
    from gradgate.statistics import Comparison

_SCORED_ON_THE_SAME_RUNS = {"MNLI-mm": "MNLI"}
"""Tasks whose scores come from the runs of another task."""
_CONFIDENCE = 0.95


def compare_quantity(numbers: Numbers, quantity: Callable[[Lookup], float], threshold: float) -> Comparison:
    """Compare a quantity of mean scores with a threshold; the quantity uses every run of each arm.

    The error is that of the jackknife over several samples: runs are left out one by one. Scores of the same runs, such
    as those of several languages or those listed under two models, are left out together.

    Returns:
        A comparison whose ``unit`` is a run and ``n`` the fewest runs of an arm; without interval and p if an arm has
        a single run. Its ``sd`` is the error times the root of the runs per arm, so that numbers of runs that would
        decide follow from it.

    Raises:
        UnknownError: if a score that the quantity needs is absent or ambiguous.
        ZeroDivisionError: if the quantity divides by a score of 0.
    Source:
        Arvesen 1969, Jackknifing U-statistics, for several samples; Satterthwaite 1946 for the degrees of freedom.
    """
    asked = numbers.asked(quantity)
    means = {key: {0: fmean(numbers.scores[key].values())} for key in asked}
    averaged = Lookup(replace(numbers, scores=means), None, set())
    whole = quantity(averaged)
    samples: dict[tuple[str, ...], list[Key]] = {}
    for key in sorted(asked):
        samples.setdefault(_runs_of(key), []).append(key)
    joined = _joined(list(samples.values()), numbers.scores)
    parts = [_variance(numbers.scores, keys, means, lambda: quantity(averaged)) for keys in joined]
    fewest = min(len(numbers.scores[key]) for key in asked)
    return _against(whole, parts, threshold, fewest)


def _against(value: float, parts: Sequence[tuple[float, int]], threshold: float, runs: int) -> Comparison:
    """Test a value against a threshold, by the variances of its samples and the runs of each."""
    from scipy import special  # takes half a second, which listing claims need not wait for

    from gradgate.statistics import Comparison

    difference = value - threshold
    if runs < 2:
        return Comparison(runs, difference, note="one run of an arm: no interval or test", unit="run")
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return Comparison(runs, difference, note="no spread to test against", unit="run")
    error = sqrt(variance)
    freedom = variance**2 / sum(part**2 / (count - 1) for part, count in parts)
    half = float(special.stdtrit(freedom, (1 + _CONFIDENCE) / 2)) * error
    return Comparison(
        runs,
        difference,
        error * sqrt(fmean(count for _, count in parts)),
        interval=(difference - half, difference + half),
        p=float(2 * special.stdtr(freedom, -abs(difference / error))),
        t=difference / error,
        note="not paired: the jackknife over runs",
        unit="run",
        error=error,
        freedom=freedom,
    )


def _runs_of(key: Key) -> tuple[str, ...]:
    task = _SCORED_ON_THE_SAME_RUNS.get(key.place.task, key.place.task)
    return (key.place.model, task, key.place.size, key.method)


def _joined(samples: Sequence[list[Key]], scores: Mapping[Key, Mapping[int, float]]) -> list[list[Key]]:
    """Join the samples that contain the same runs, as those of two models in the Elsa authors' results do."""
    found: list[list[Key]] = []
    for keys in samples:
        first = keys[0]
        alike = (
            other
            for other in found
            if (other[0].place.task, other[0].method) == (first.place.task, first.method)
            and shared_runs(scores[first], scores[other[0]]) > 1
        )
        if (same := next(alike, None)) is None:
            found.append(list(keys))
        else:
            same.extend(keys)
    return found


def shared_runs(one: Mapping[int, float], other: Mapping[int, float]) -> int:
    """Count the runs that two samples share: equal scores under equal seeds.

    Returns:
        0 if all shared scores are equal to each other too, as those of collapsed runs may be by chance.
    """
    same = [score for seed, score in one.items() if other.get(seed) == score]
    return len(same) if len(set(same)) > 1 else 0


def _variance(
    scores: Mapping[Key, Mapping[int, float]],
    keys: list[Key],
    means: dict[Key, dict[int, float]],
    value: Callable[[], float],
) -> tuple[float, int]:
    """Return the variance that a sample adds, 0 for a single run, and the number of its runs."""
    seeds = sorted({seed for key in keys for seed in scores[key]})
    kept = {key: means[key] for key in keys}
    left_out = []
    for seed in seeds:
        for key in keys:
            others = [score for other, score in scores[key].items() if other != seed]
            means[key] = {0: fmean(others)} if others else kept[key]
        left_out.append(value())
    means.update(kept)
    count, middle = len(seeds), fmean(left_out)
    return (count - 1) / count * sum((each - middle) ** 2 for each in left_out), count
