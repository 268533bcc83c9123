"""Compare quantities with thresholds: printed numbers as they stand, measured ones by the verdict on their seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING

from gradgate.papers.claims.base import FAILS, HOLDS, UNKNOWN, ClaimCheck, State, ThresholdTest
from gradgate.papers.claims.numbers import Lookup, Numbers, Place, SeveralArmsError, UnknownError

if TYPE_CHECKING:
    from gradgate.statistics import Comparison, Verdict

_EXACT = 1e-9
FEWEST_TASKS = 3
"""The fewest tasks that decide what a paper claims of the mean over its tasks, of each of them, or of most."""


def above(
    numbers: Numbers,
    what: str,
    quantity: Callable[[Lookup], float],
    threshold: float = 0.0,
    *,
    or_equal: bool = False,
    certain: bool = False,
    repeat: str = "seed",
) -> ClaimCheck:
    """Check whether a quantity is above a threshold.

    Printed numbers are taken as they stand. Measured ones hold or fail if the 95% t interval of the mean over seeds
    is on one side of the threshold.

    Args:
        what: the quantity in words; the number follows it.
        certain: whether equal values of several seeds settle it, as those of an order do and those of scores do not.
        repeat: what each value of the quantity belongs to, if not a seed.
    """
    claimed = f"{'at least' if or_equal else 'above'} {threshold:g}"
    if not numbers.paired:
        return _unpaired(numbers, what, quantity, threshold, claimed)
    values = _values(numbers, what, quantity, repeat)
    if isinstance(values, ClaimCheck):
        return values
    finding, mean = _compared(numbers, what, quantity, claimed), fmean(values.values())
    if numbers.exact:
        passed = mean > threshold + _EXACT or (or_equal and mean > threshold - _EXACT)
        return replace(finding, state=HOLDS if passed else FAILS, found=f"{what} = {_shown(mean)}")
    if certain and len(values) > 1 and len(set(values.values())) == 1 and mean != threshold:
        found = f"{what} = {_shown(mean)}, the same for all {len(values)} {repeat}s"
        return replace(finding, state=HOLDS if mean > threshold else FAILS, found=found)
    test = ThresholdTest(what, _against(values, threshold, repeat), threshold)
    return _alone(replace(finding, test=test))


def below(
    numbers: Numbers,
    what: str,
    quantity: Callable[[Lookup], float],
    threshold: float = 0.0,
    *,
    or_equal: bool = False,
    certain: bool = False,
) -> ClaimCheck:
    """Check whether a quantity is below a threshold, as :func:`above` does."""
    other = above(numbers, what, quantity, threshold, or_equal=not or_equal, certain=certain)
    states: dict[State, State] = {HOLDS: FAILS, FAILS: HOLDS, UNKNOWN: UNKNOWN}
    claimed = f"{'at most' if or_equal else 'below'} {threshold:g}" if other.claimed else ""
    test = None if other.test is None else replace(other.test, above=False)
    return replace(other, state=states[other.state], claimed=claimed, test=test)


def level(numbers: Numbers, what: str, quantity: Callable[[Lookup], float], margin: float) -> ClaimCheck:
    """Check whether a difference is within a margin on both sides.

    Measured ones hold if two one-sided tests at 5 % show it: the 90% t interval is within the margin. They fail if the
    95% interval is outside of it.

    Args:
        margin: above 0.
    """
    if not numbers.paired:
        return ClaimCheck(UNKNOWN, f"{what}: whether unpaired runs are level is not tested")
    values = _values(numbers, what, quantity, "seed")
    if isinstance(values, ClaimCheck):
        return values
    finding, mean = _compared(numbers, what, quantity, f"within ±{margin:g}"), fmean(values.values())
    if numbers.exact:
        return replace(finding, state=HOLDS if abs(mean) < margin + _EXACT else FAILS, found=f"{what} = {_shown(mean)}")
    nearer = margin if mean >= 0 else -margin
    test = ThresholdTest(what, _against(values, nearer, "seed"), nearer, margin=margin)
    return _alone(replace(finding, test=test))


def at_least_about(
    numbers: Numbers, what: str, quantity: Callable[[Lookup], float], claimed: float, digits: int
) -> ClaimCheck:
    """Check whether a quantity, rounded to these digits, reaches what a paper calls "about 2 points"."""
    return above(numbers, what, quantity, claimed - 0.5 * 10.0**-digits, or_equal=True)


def over_tasks(numbers: Numbers, finding: ClaimCheck, tasks: int) -> ClaimCheck:
    """Mark a finding about all tasks of a paper as undecided if it covers fewer than three."""
    if numbers.exact or tasks >= FEWEST_TASKS:
        return finding
    return undecided(finding, f"{counted_tasks(tasks)} of the {FEWEST_TASKS} needed")


def of_model(numbers: Numbers, finding: ClaimCheck, model: str, named: str) -> ClaimCheck:
    """Mark a finding as undecided if it is on another model than the one that its claim names.

    Args:
        named: the beginning of that model's name.
    """
    if numbers.exact or model.startswith(named):
        return finding
    return undecided(finding, f"not of {named}, which the claim is about")


def not_compared(
    numbers: Numbers, findings: Sequence[ClaimCheck], where: str, methods: Sequence[str]
) -> list[ClaimCheck]:
    """Return an undecided finding on methods without runs, as a claim about all methods does not hold without them.

    There is none if nothing was compared, nor for printed tables, which have the methods of their paper.
    """
    if numbers.exact or not methods or not any(finding.compared for finding in findings):
        return []
    return [ClaimCheck(UNKNOWN, f"{where}: not compared with {', '.join(methods)}", compared=True)]


def undecided(finding: ClaimCheck, why: str) -> ClaimCheck:
    """Return a finding that decides nothing, whatever its numbers are; one that lacks them stays as it is.

    Args:
        why: added to the reasons that it has already.
    """
    if finding.test is None and finding.state == UNKNOWN and not finding.limits:
        return finding
    return replace(finding, state=UNKNOWN, limits=(*finding.limits, why), test=None, repeats_needed=None)


def counted_tasks(tasks: int) -> str:
    """Return the number of tasks, in words."""
    return f"{tasks} task{'s' * (tasks != 1)}"


def count_tasks(places: Iterable[Place]) -> int:
    """Count the tasks of places; one on several models, or with training sets of several sizes, is one."""
    return len({place.task for place in places})


def tasks_in(places: Iterable[Place]) -> str:
    """Return the number of tasks of places, in words."""
    return counted_tasks(count_tasks(places))


def corrected(findings: Sequence[ClaimCheck]) -> list[ClaimCheck]:
    """Correct the tests of findings, which are one family, by Holm's procedure, and decide the findings.

    Printed numbers, and findings that no test decides, stay as they are.
    """
    if not any(finding.test for finding in findings):
        return list(findings)
    from gradgate.statistics import judge  # brings scipy, which listing the claims does without

    tests = [finding.test.comparison for finding in findings if finding.test is not None]
    verdicts = iter(judge(tests, higher_is_better=True))
    return [
        finding if finding.test is None else _decided(finding, finding.test, next(verdicts)) for finding in findings
    ]


def tests_done(findings: Sequence[ClaimCheck]) -> int:
    """Count the tests over which :func:`corrected` corrects."""
    return sum(finding.test is not None and finding.test.comparison.p is not None for finding in findings)


def _unpaired(
    numbers: Numbers, what: str, quantity: Callable[[Lookup], float], threshold: float, claimed: str
) -> ClaimCheck:
    """Return the finding on unpaired runs, all of which count."""
    from gradgate.papers.claims.unpaired import compare_quantity

    try:
        comparison = compare_quantity(numbers, quantity, threshold)
    except UnknownError as error:
        return _lacking(what, error)
    except ZeroDivisionError:
        return _undefined(what)
    test = ThresholdTest(what, comparison, threshold)
    return _alone(replace(_compared(numbers, what, quantity, claimed), test=test))


def _compared(numbers: Numbers, what: str, quantity: Callable[[Lookup], float], claimed: str) -> ClaimCheck:
    """Return an undecided finding with its quantity."""
    asked = sorted(numbers.asked(quantity))
    seeds = 0 if numbers.exact else min(len(numbers.scores[key]) for key in asked)
    tasks = tuple(dict.fromkeys(key.place.task for key in asked))
    return ClaimCheck(UNKNOWN, what, claimed, compared=True, arms=numbers.arms_of(quantity), tasks=tasks, seeds=seeds)


def _alone(finding: ClaimCheck) -> ClaimCheck:
    return corrected([finding])[0]


def _values(
    numbers: Numbers, what: str, quantity: Callable[[Lookup], float], repeat: str
) -> Mapping[int, float] | ClaimCheck:
    """Return the quantity of each seed, or a finding that says why there is none."""
    try:
        values = numbers.by_seed(quantity)
    except UnknownError as error:
        return _lacking(what, error)
    except ZeroDivisionError:
        return _undefined(what)
    return values or ClaimCheck(UNKNOWN, f"{what}: no {repeat} has all that this compares")


def _lacking(what: str, error: UnknownError) -> ClaimCheck:
    return ClaimCheck(UNKNOWN, f"{what}: {error}", compared=isinstance(error, SeveralArmsError))


def _undefined(what: str) -> ClaimCheck:
    return ClaimCheck(UNKNOWN, f"{what}: undefined, as it divides by 0")


def _against(values: Mapping[int, float], threshold: float, repeat: str) -> Comparison:
    return _compare(tuple(values.items()), threshold, repeat)


@lru_cache(maxsize=4096)
def _compare(values: tuple[tuple[int, float], ...], threshold: float, repeat: str) -> Comparison:
    """Compare values with a threshold. Cached: a claim is checked once more without each part that it might use."""
    from gradgate.statistics import compare_paired

    each = dict(values)
    return compare_paired(each, dict.fromkeys(each, threshold), unit=repeat)


def _decided(finding: ClaimCheck, test: ThresholdTest, verdict: Verdict) -> ClaimCheck:
    """Return the finding with the state and the interval of its verdict."""
    from gradgate.statistics import Word

    if test.margin is not None:
        return _levelled(finding, test, verdict)
    better, worse = (HOLDS, FAILS) if test.above else (FAILS, HOLDS)
    state = {Word.BETTER: better, Word.WORSE: worse}.get(verdict.word, UNKNOWN)
    found = _found(test, verdict.interval_corrected)
    return replace(finding, state=state, found=found, limits=(), repeats_needed=verdict.pairs_needed)


def _levelled(finding: ClaimCheck, test: ThresholdTest, verdict: Verdict) -> ClaimCheck:
    """Return a finding on equality: within the margin by two one-sided tests, or outside by the corrected one."""
    from gradgate.statistics import Word, judge

    outside = Word.BETTER if test.threshold > 0 else Word.WORSE
    if verdict.word is outside:
        return replace(finding, state=FAILS, found=_found(test, verdict.interval_corrected), limits=())
    values = dict(enumerate(difference + test.threshold for difference in test.comparison.differences))
    around = judge([_against(values, 0.0, test.comparison.unit)], higher_is_better=True, margin=test.margin)[0]
    state = HOLDS if around.equivalent else UNKNOWN
    return replace(finding, state=state, found=_found(test, _at_90(test.comparison), "90% interval "), limits=())


def _at_90(comparison: Comparison) -> tuple[float, float] | None:
    """Return the 90% interval, which two one-sided tests at 5 % look at."""
    from gradgate.statistics import compare_paired

    values = dict(enumerate(comparison.differences))
    return compare_paired(values, dict.fromkeys(values, 0.0), 0.9, comparison.unit).interval


def _found(test: ThresholdTest, interval: tuple[float, float] | None, name: str = "") -> str:
    """Return the mean with its interval, in words."""
    comparison, unit = test.comparison, test.comparison.unit
    mean = _shown((comparison.difference or 0.0) + test.threshold)
    if interval is None:
        alike = f"the same for all {comparison.n} {unit}s" if comparison.differences else "no spread"
        why = f"1 {unit}" if comparison.n == 1 else alike
        return f"{test.what} = {mean} ({why}: no interval)"
    low, high = (_shown(end + test.threshold) for end in interval)
    return f"{test.what} = {mean} [{name}{low} to {high}], {comparison.n} {unit}s"


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.2f}"
