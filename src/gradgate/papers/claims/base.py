"""Check claims: compare quantities with thresholds; each holds, fails or stays undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from gradgate.papers.claims.numbers import Lookup, Numbers, SeveralArmsError, UnknownError

State = Literal["holds", "fails", "cannot tell"]
HOLDS: State = "holds"
FAILS: State = "fails"
UNKNOWN: State = "cannot tell"
_EXACT = 1e-9
FEWEST_TASKS = 3
"""The fewest tasks that decide a claim about a mean over all tasks of a paper."""


@dataclass(frozen=True)
class ClaimCheck:
    """One part of a claim: what was compared, with its numbers.

    Attributes:
        found: a quantity and its value, or why there is none.
        claimed: what the claim says of it; empty if nothing was compared.
        limit: why the numbers do not decide it, if the state alone would.
        compared: whether there was something to compare: a number, or several arms that could be meant.
        arms: the labels of the paper in it, each with the arm that was run for it.
    """

    state: State
    found: str
    claimed: str = ""
    limit: str = ""
    compared: bool = False
    arms: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line."""
        claimed = f", claimed {self.claimed}" if self.claimed else ""
        return f"{self.found}{claimed}{f'; {self.limit}' if self.limit else ''}"


@dataclass(frozen=True)
class ClaimOutcome:
    """The result of a claim's check."""

    state: State
    findings: tuple[ClaimCheck, ...]
    rule: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, in our words.

    Attributes:
        id: such as ``G1``; the letter is that of the paper.
        paper: its key.
        wording: what is claimed, as it is tested.
        sources: tables that print what it needs; several if the paper prints it twice.
        check: the test; None if scores of runs do not suffice.
        needs: what a test would take in that case.
    """

    id: str
    paper: str
    wording: str
    sources: tuple[tuple[str, ...], ...] = ()
    check: Callable[[Numbers], ClaimOutcome] | None = None
    needs: str = ""


def above(
    numbers: Numbers,
    what: str,
    quantity: Callable[[Lookup], float],
    threshold: float = 0.0,
    *,
    or_equal: bool = False,
    tests: int = 1,
    certain: bool = False,
    repeat: str = "seed",
) -> ClaimCheck:
    """Check whether a quantity is above a threshold.

    Printed numbers are taken as they stand. Measured ones hold or fail if the 95% t interval of the mean over seeds
    is on one side of the threshold.

    Args:
        what: the quantity in words; the number follows it.
        tests: number of such findings that a claim may choose from; the interval is widened for it (Bonferroni).
        certain: whether equal values of several seeds settle it, as those of an order do and those of scores do not.
        repeat: what each value of the quantity belongs to, if not a seed.
    """
    claimed = f"{'at least' if or_equal else 'above'} {threshold:g}"
    try:
        values = list(numbers.by_seed(quantity).values())
    except UnknownError as error:
        return ClaimCheck(UNKNOWN, f"{what}: {error}", compared=isinstance(error, SeveralArmsError))
    except ZeroDivisionError:
        return ClaimCheck(UNKNOWN, f"{what}: undefined, as it divides by 0")
    if not values:
        return ClaimCheck(UNKNOWN, f"{what}: no {repeat} has all that this compares")
    mean = fmean(values)
    if numbers.exact:
        passed = mean > threshold + _EXACT or (or_equal and mean > threshold - _EXACT)
        state, shown = HOLDS if passed else FAILS, _shown(mean)
    else:
        state, shown = _measured(values, threshold, tests, certain, repeat)
    return ClaimCheck(state, f"{what} = {shown}", claimed, compared=True, arms=numbers.arms_of(quantity))


def _measured(values: list[float], threshold: float, tests: int, certain: bool, repeat: str) -> tuple[State, str]:
    """Return on which side of the threshold the interval of the mean lies, and the mean with its interval in words."""
    from gradgate.statistics import summarize  # brings scipy, which listing the claims does without

    mean, count = fmean(values), len(values)
    interval = summarize(values, 1 - 0.05 / tests).interval
    if interval is None and certain and count > 1:
        interval = mean, mean
    if interval is None:
        why = f"1 {repeat}" if count == 1 else f"the same for all {count} {repeat}s"
        return UNKNOWN, f"{_shown(mean)} ({why}: no interval)"
    low, high = interval
    state = HOLDS if low > threshold else FAILS if high < threshold else UNKNOWN
    return state, f"{_shown(mean)} [{_shown(low)} to {_shown(high)}], {count} {repeat}s"


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
    return replace(other, state=states[other.state], claimed=claimed)


def over_tasks(numbers: Numbers, finding: ClaimCheck, tasks: int) -> ClaimCheck:
    """Mark a finding about a mean over many tasks as undecided if it covers fewer than three.

    For claims that single tasks of the paper contradict, so that one task cannot decide them.
    """
    if numbers.exact or tasks >= FEWEST_TASKS or finding.state == UNKNOWN:
        return finding
    return replace(finding, state=UNKNOWN, limit=f"of {_count(tasks)}, where it takes {FEWEST_TASKS}")


def at_least_about(
    numbers: Numbers, what: str, quantity: Callable[[Lookup], float], claimed: float, digits: int
) -> ClaimCheck:
    """Check whether a quantity, rounded to these digits, reaches what a paper calls "about 2 points"."""
    return above(numbers, what, quantity, claimed - 0.5 * 10.0**-digits, or_equal=True)


def all_of(findings: Sequence[ClaimCheck], lacking: str = "") -> ClaimOutcome:
    """Return an outcome that holds if each finding does and fails if one does; ``lacking`` explains an empty list."""
    states = {finding.state for finding in findings}
    state: State = FAILS if FAILS in states else HOLDS if states == {HOLDS} else UNKNOWN
    return ClaimOutcome(state, tuple(findings) or _nothing(lacking), "each must hold" if len(findings) > 1 else "")


def most_of(findings: Sequence[ClaimCheck], lacking: str = "") -> ClaimOutcome:
    """Return an outcome that holds if more than half of the findings do and fails if half or more fail."""
    held, failed = (sum(finding.state == state for finding in findings) for state in (HOLDS, FAILS))
    half = len(findings) / 2
    state: State = HOLDS if held > half else FAILS if findings and failed >= half else UNKNOWN
    rule = f"more than half must hold: {held} of {len(findings)} do" if len(findings) > 1 else ""
    return ClaimOutcome(state, tuple(findings) or _nothing(lacking), rule)


def any_of(findings: Sequence[ClaimCheck], lacking: str = "") -> ClaimOutcome:
    """Return an outcome that holds if one finding does and fails if each fails."""
    states = {finding.state for finding in findings}
    state: State = HOLDS if HOLDS in states else FAILS if states == {FAILS} else UNKNOWN
    return ClaimOutcome(state, tuple(findings) or _nothing(lacking), "one must hold" if len(findings) > 1 else "")


def both(*outcomes: ClaimOutcome) -> ClaimOutcome:
    """Combine several parts of a claim, each with its own rule."""
    states = {outcome.state for outcome in outcomes}
    state: State = FAILS if FAILS in states else HOLDS if states == {HOLDS} else UNKNOWN
    findings = tuple(finding for outcome in outcomes for finding in outcome.findings)
    rules = dict.fromkeys(outcome.rule for outcome in outcomes if outcome.rule)
    return ClaimOutcome(state, findings, "; ".join(rules))


def tasks_in(places: Sequence[object]) -> str:
    """Return the number of tasks, in words."""
    return _count(len(places))


def _count(tasks: int) -> str:
    return f"{tasks} task{'s' * (tasks != 1)}"


def _nothing(lacking: str) -> tuple[ClaimCheck, ...]:
    return (ClaimCheck(UNKNOWN, lacking),) if lacking else ()


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.2f}"
