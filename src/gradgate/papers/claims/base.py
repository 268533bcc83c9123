"""How a claim is checked: quantities against thresholds, each holding, failing, or not to be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from gradgate.papers.numbers import LackingError, Lookup, Numbers
from gradgate.statistics import summarize

State = Literal["holds", "fails", "cannot tell"]
HOLDS: State = "holds"
FAILS: State = "fails"
UNKNOWN: State = "cannot tell"
_EXACT = 1e-9


@dataclass(frozen=True)
class Finding:
    """One part of a claim: what was compared, with its numbers."""

    state: State
    text: str


@dataclass(frozen=True)
class Outcome:
    """What the numbers say of a claim."""

    state: State
    findings: tuple[Finding, ...]
    rule: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, in our words.

    Attributes:
        id: as ``G1``; the letter is that of the paper.
        paper: its key.
        wording: what is claimed, as it is tested.
        sources: tables that print what it needs; several where the paper prints it twice.
        check: the test; None where scores of runs do not suffice.
        needs: what it would take then.
    """

    id: str
    paper: str
    wording: str
    sources: tuple[tuple[str, ...], ...] = ()
    check: Callable[[Numbers], Outcome] | None = None
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
) -> Finding:
    """Whether a quantity is above a threshold.

    Printed numbers are taken as they stand. Measured ones hold or fail if the 95% t interval of the mean over seeds
    is on one side of the threshold.

    Args:
        what: the quantity in words; where its name ends the number follows.
        tests: how many such findings a claim may choose from: the interval is widened for as many (Bonferroni).
        certain: whether equal values of several seeds settle it, as those of an order do and those of scores do not.
    """
    wanted = f"{'at least' if or_equal else 'above'} {threshold:g}"
    try:
        values = list(numbers.by_seed(quantity).values())
    except LackingError as error:
        return Finding(UNKNOWN, f"{what}: {error}")
    except ZeroDivisionError:
        return Finding(UNKNOWN, f"{what}: undefined, as it divides by 0")
    if not values:
        return Finding(UNKNOWN, f"{what}: no seed has all that this compares")
    mean = fmean(values)
    if numbers.exact:
        passed = mean > threshold + _EXACT or (or_equal and mean > threshold - _EXACT)
        return Finding(HOLDS if passed else FAILS, f"{what} = {_shown(mean)}, claimed {wanted}")
    interval = summarize(values, 1 - 0.05 / tests).interval
    if interval is None and certain and len(values) > 1:
        interval = mean, mean
    if interval is None:
        why = "1 seed" if len(values) == 1 else f"the same for all {len(values)} seeds"
        return Finding(UNKNOWN, f"{what} = {_shown(mean)} ({why}: no interval), claimed {wanted}")
    low, high = interval
    state = HOLDS if low > threshold else FAILS if high < threshold else UNKNOWN
    spread = f"[{_shown(low)} to {_shown(high)}], {len(values)} seeds"
    return Finding(state, f"{what} = {_shown(mean)} {spread}, claimed {wanted}")


def below(
    numbers: Numbers,
    what: str,
    quantity: Callable[[Lookup], float],
    threshold: float = 0.0,
    *,
    or_equal: bool = False,
) -> Finding:
    """As :func:`above`, for a quantity that is claimed to be below the threshold."""
    other = above(numbers, what, quantity, threshold, or_equal=not or_equal)
    states: dict[State, State] = {HOLDS: FAILS, FAILS: HOLDS, UNKNOWN: UNKNOWN}
    kept, _, _ = other.text.rpartition(", claimed ")
    text = f"{kept}, claimed {'at most' if or_equal else 'below'} {threshold:g}" if kept else other.text
    return Finding(states[other.state], text)


def all_of(findings: Sequence[Finding], lacking: str = "") -> Outcome:
    """Holds if each does, fails if one does. ``lacking`` is said where there is none."""
    states = {finding.state for finding in findings}
    state: State = FAILS if FAILS in states else HOLDS if states == {HOLDS} else UNKNOWN
    return Outcome(state, tuple(findings) or _nothing(lacking), "each must hold" if len(findings) > 1 else "")


def most_of(findings: Sequence[Finding], lacking: str = "") -> Outcome:
    """Holds if more than half do, fails if half or more fail."""
    held, failed = (sum(finding.state == state for finding in findings) for state in (HOLDS, FAILS))
    half = len(findings) / 2
    state: State = HOLDS if held > half else FAILS if findings and failed >= half else UNKNOWN
    rule = f"more than half must hold: {held} of {len(findings)} do" if len(findings) > 1 else ""
    return Outcome(state, tuple(findings) or _nothing(lacking), rule)


def any_of(findings: Sequence[Finding], lacking: str = "") -> Outcome:
    """Holds if one does, fails if each fails."""
    states = {finding.state for finding in findings}
    state: State = HOLDS if HOLDS in states else FAILS if states == {FAILS} else UNKNOWN
    return Outcome(state, tuple(findings) or _nothing(lacking), "one must hold" if len(findings) > 1 else "")


def both(*outcomes: Outcome) -> Outcome:
    """Several parts of a claim, each with a rule of its own."""
    states = {outcome.state for outcome in outcomes}
    state: State = FAILS if FAILS in states else HOLDS if states == {HOLDS} else UNKNOWN
    findings = tuple(finding for outcome in outcomes for finding in outcome.findings)
    rules = dict.fromkeys(outcome.rule for outcome in outcomes if outcome.rule)
    return Outcome(state, findings, "; ".join(rules))


def _nothing(lacking: str) -> tuple[Finding, ...]:
    return (Finding(UNKNOWN, lacking),) if lacking else ()


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.2f}"
