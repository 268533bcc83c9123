"""Find what makes a comparison unfair or says more than its data, in imported scores and in own studies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from statistics import fmean

from gradgate.errors import some_of
from gradgate.runs.records import DEV, TRAIN
from gradgate.study.importing.raw import number_of
from gradgate.study.importing.scores import REPORTED, Score

IDENTICAL, ONE_SIDED, UNEQUAL, EDGE = "identical_arms", "one_sided_search", "unequal_search", "rate_at_edge"
ONE_SEED, UNEQUAL_SEEDS, TEST_SELECTED, NO_SCORES = "one_seed", "unequal_seeds", "test_selected", "no_scores"
NEVER_REACHED, SMALL_DEV = "rate_never_reached", "small_dev"
_LEAST_IDENTICAL = 2  # scores that two arms have in common before their equality says something
_SHOWN = 4
_ROUNDED = 100  # the denominator of scores with two decimals
_some = partial(some_of, most=_SHOWN)


@dataclass(frozen=True)
class FairnessWarning:
    """One doubt about a comparison.

    Attributes:
        kind: one of the kinds of this module.
        arms: that it is about.
        text: a sentence for people.
    """

    kind: str
    arms: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class ScoredCondition:
    """The scores of one task, model and training size, by arm.

    ``paired``: a seed of two arms is a pair. ``unscored``: arms of which no run has a score, with their runs.
    """

    name: str
    arms: Mapping[str, Sequence[Score]]
    metric: str
    higher: bool
    paired: bool = True
    unscored: Mapping[str, int] = field(default_factory=dict)


def fairness(conditions: Iterable[ScoredCondition], reference: str) -> list[FairnessWarning]:
    """Return the doubts about some conditions; those of several conditions are joined, kind by kind.

    Args:
        conditions: of the study.
        reference: the arm that the others are compared to.
    """
    found: dict[str, list[tuple[str, FairnessWarning]]] = defaultdict(list)
    conditions = list(conditions)
    rates = {
        scores[0].logged.get("lr_highest_logged") for condition in conditions for scores in condition.arms.values()
    }
    for condition in conditions:
        for warning in [*_of_condition(condition, reference), *_unreached(condition, is_constant=len(rates) == 1)]:
            found[warning.kind].append((condition.name, warning))
    return [_joined(kind, warnings) for kind, warnings in found.items()]


def _joined(kind: str, warnings: Sequence[tuple[str, FairnessWarning]]) -> FairnessWarning:
    """Return the warnings of one kind as one: each sentence once, with the conditions that it is about."""
    places: dict[str, list[str]] = {}
    for name, warning in warnings:
        places.setdefault(warning.text, []).append(name)
    texts = [f"{_some(names, between='; ')}: {text}" if any(names) else text for text, names in places.items()]
    more = f" The same applies to {len(texts) - _SHOWN} more conditions or groups." if len(texts) > _SHOWN else ""
    arms = tuple(dict.fromkeys(arm for _, warning in warnings for arm in warning.arms))
    return FairnessWarning(kind, arms, " ".join(texts[:_SHOWN]) + more)


def _of_condition(condition: ScoredCondition, reference: str) -> Iterable[FairnessWarning]:
    yield from _identical(condition)
    yield from _seeds(condition, reference)
    yield from _searches(condition, reference)
    yield from _selected_on_test(condition)
    yield from _small_dev(condition)
    for arm, runs in condition.unscored.items():
        lost = "its only run has no score" if runs == 1 else f"none of its {runs:,} runs has a score"
        yield FairnessWarning(NO_SCORES, (arm,), f"{arm}: {lost}, so it is not judged.")


def _identical(condition: ScoredCondition) -> Iterable[FairnessWarning]:
    """Yield groups of arms with the very same scores, every one."""
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for arm, scores in condition.arms.items():
        marks = sorted(
            (score.cell.seed, score.cell.split, score.cell.metric, score.cell.step or 0, score.value)
            for score in scores
        )
        if len({value for *_, value in marks}) >= _LEAST_IDENTICAL:
            groups[tuple(marks)].append(arm)
    for same, arms in groups.items():
        if len(arms) > 1:
            yield FairnessWarning(
                IDENTICAL,
                tuple(arms),
                f"{_some(arms)} have the same {len(same)} scores to the last digit, so they are probably the same "
                "training.",
            )


def _compared(condition: ScoredCondition) -> dict[str, list[Score]]:
    """Return the scores of each arm on the metric and the split that are compared; all scores if there are none."""
    own = {arm: [s for s in scores if s.cell.metric == condition.metric] for arm, scores in condition.arms.items()}
    splits = {score.cell.split for scores in own.values() for score in scores}
    split = next((each for each in ("test", REPORTED, DEV) if each in splits), None)
    found = {arm: [s for s in scores if s.cell.split == split] for arm, scores in own.items()}
    return found if any(found.values()) else {arm: list(scores) for arm, scores in condition.arms.items()}


def _seeds(condition: ScoredCondition, reference: str) -> Iterable[FairnessWarning]:
    """Yield arms of one seed, and arms whose seeds are not those of the reference."""
    seeds = {arm: {score.cell.seed for score in scores} for arm, scores in _compared(condition).items()}
    single = tuple(arm for arm, own in seeds.items() if len(own) == 1)
    if single:
        what = (
            "every arm has" if len(single) == len(seeds) else f"{_some(single)} {'has' if len(single) == 1 else 'have'}"
        )
        yield FairnessWarning(ONE_SEED, single, f"{what} one seed, so a difference may be noise.")
    theirs = seeds.get(reference)
    other = tuple(arm for arm, own in seeds.items() if condition.paired and theirs is not None and own != theirs)
    if other:
        common = min(len(seeds[arm] & theirs) for arm in other if theirs is not None)
        yield FairnessWarning(
            UNEQUAL_SEEDS,
            other,
            f"{_some(other)} and {reference} have different seeds (at least {common} in common); only common "
            "seeds are paired.",
        )


def _searches(condition: ScoredCondition, reference: str) -> Iterable[FairnessWarning]:
    """Yield what a search did for one arm and not for another, and best rates at the edge of what was tried."""
    tried = {arm: {score.settings for score in scores if score.settings} for arm, scores in condition.arms.items()}
    counts = {arm: len(settings) for arm, settings in tried.items() if settings}
    if len(counts) > 1 and len(set(counts.values())) > 1:
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[least] == 1:
            alone = tuple(arm for arm, count in counts.items() if count > 1)
            yield FairnessWarning(ONE_SIDED, alone, f"settings were tuned for {_some(alone)} but not for {least}.")
        else:
            yield FairnessWarning(
                UNEQUAL,
                (most, least),
                f"{counts[most]} settings were tried for {most}, but only {counts[least]} for {least}.",
            )
    for arm, scores in condition.arms.items():
        rate = _rate_at_edge(scores, condition)
        if rate is not None:
            yield FairnessWarning(EDGE, (arm,), f"the best rate of {arm}, {rate}, is at the edge of those tried.")


def _rate_at_edge(scores: Sequence[Score], condition: ScoredCondition) -> str | None:
    """Return the rate of the settings with the best mean, if it is the lowest or the highest of several.

    Means are over seeds, on dev if the arm has it: runs were picked by it.
    """
    own = [score for score in scores if score.cell.metric == condition.metric]
    on_dev = [score for score in own if score.cell.split == DEV]
    values: dict[object, list[float]] = defaultdict(list)
    rates: dict[object, float] = {}
    for score in on_dev or own:
        rate = next((number_of(value) for name, value in score.settings if name in ("lr", "learning_rate")), None)
        if rate is not None:
            values[score.settings].append(score.value)
            rates[score.settings] = rate
    if len(set(rates.values())) < 2:
        return None
    best = rates[(max if condition.higher else min)(values, key=lambda settings: fmean(values[settings]))]
    return f"{best:g}" if best in (min(rates.values()), max(rates.values())) else None


def _unreached(condition: ScoredCondition, is_constant: bool) -> Iterable[FairnessWarning]:
    """Yield arms whose highest logged rate is below the stated one, or was that of their last step.

    The second is not said if all runs have one rate, as a constant schedule gives them.
    """
    below: dict[str, str] = {}
    last_step: dict[str, float] = {}
    for arm, scores in condition.arms.items():
        logged = scores[0].logged
        highest, last = logged.get("lr_highest_logged"), logged.get("lr_last_logged")
        stated = logged.get("lr_stated")
        if highest is not None and stated is not None and highest < 0.9 * stated:
            below[arm] = f"{highest:g} of {stated:g}"
        elif highest is not None and stated is None and highest == last:
            last_step[arm] = highest
    if below:
        first = next(iter(below))
        text = f"{_some(tuple(below))} never reached the stated rate ({first}: {below[first]})."
        yield FairnessWarning(NEVER_REACHED, tuple(below), text)
    if last_step and not is_constant:
        first = next(iter(last_step))
        yield FairnessWarning(
            NEVER_REACHED,
            tuple(last_step),
            f"the highest rate of {_some(tuple(last_step))} is that of its last step ({first}: "
            f"{last_step[first]:g}); the warm-up had not ended, or the rate is constant.",
        )


def _selected_on_test(condition: ScoredCondition) -> Iterable[FairnessWarning]:
    """Yield arms whose score is the best of several on test: of settings, or of checkpoints."""
    found = []
    for arm, scores in condition.arms.items():
        compared = [score for score in scores if score.cell.metric == condition.metric]
        on_test = [score for score in compared if score.cell.split not in (DEV, TRAIN)]
        has_dev = any(score.cell.split == DEV for score in scores)
        tried = {score.settings for score in on_test}
        if (len(tried) > 1 and not has_dev) or "best" in condition.metric.split("_"):
            found.append(arm)
    if found:
        yield FairnessWarning(
            TEST_SELECTED,
            tuple(found),
            f"the scores of {_some(found)} were selected among several on the reported split, so they are too high.",
        )


def _small_dev(condition: ScoredCondition) -> Iterable[FairnessWarning]:
    """Yield the arms that a split with few rows cannot tell from the best, if choices are made on it."""
    scores = [
        s for own in condition.arms.values() for s in own if s.cell.split == DEV and s.cell.metric == condition.metric
    ]
    rows = rows_of([score.value for score in scores])
    if rows is None:
        return
    last: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        last[score.cell.arm].append(score.value)
    tops = {arm: (max if condition.higher else min)(values) for arm, values in last.items()}
    best = (max if condition.higher else min)(tops.values())
    error = 2 * sqrt(max(2 * best * (1 - best), 0.0) / rows)
    close = tuple(arm for arm, top in tops.items() if 0 < abs(top - best) < error)
    if close:
        yield FairnessWarning(
            SMALL_DEV,
            close,
            f"dev has {rows} rows by the steps of its scores: two standard errors of a difference are "
            f"{100 * error:.1f} points, and the best arm is closer than that to {_some(close)}.",
        )


def rows_of(scores: Sequence[float], most: int = 500) -> int | None:
    """Return the number of rows that shares are counted over, from their common denominator.

    Args:
        scores: shares of 1.
        most: the largest number to find.

    Returns:
        None with fewer than five different scores, if no number up to ``most`` fits, or if scores with two decimals
        fit as well.
    """
    different = sorted(set(scores))
    if len(different) < 5 or not all(0 <= score <= 1 for score in different):
        return None
    for rows in range(10, most + 1):
        if all(abs(score * rows - round(score * rows)) < 1e-4 * rows / 100 + 1e-9 for score in different):
            return rows if _ROUNDED % rows else None
    return None
