"""Combine the findings of a claim: all must hold, most, or one; their tests are corrected as one family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradgate.papers.claims.base import FAILS, HOLDS, UNKNOWN, ClaimCheck, ClaimOutcome, ClaimPart, State
from gradgate.papers.claims.numbers import Numbers
from gradgate.papers.claims.thresholds import FEWEST_TASKS, corrected, counted_tasks, tests_done, undecided


def all_of(findings: Sequence[ClaimCheck], lacking: str = "") -> ClaimOutcome:
    """Return an outcome that holds if each finding does and fails if one does; ``lacking`` explains an empty list."""
    return _outcome([_part(findings, len(findings), "each must hold", lacking)])


def most_of(findings: Sequence[ClaimCheck], lacking: str = "") -> ClaimOutcome:
    """Return an outcome that holds if more than half of the findings do and fails if half or more fail.

    Measured ones take three tasks: most of two are both, and one task with three sizes is one.
    """
    tasks = len({task for finding in findings for task in finding.tasks})
    if any(finding.test for finding in findings) and tasks < FEWEST_TASKS:
        why = f"{counted_tasks(tasks)} of the {FEWEST_TASKS} needed for a claim about most"
        findings = [undecided(finding, why) for finding in findings]
    return _outcome([_part(findings, len(findings) // 2 + 1, "more than half must hold", lacking)])


def any_of(findings: Sequence[ClaimCheck], lacking: str = "") -> ClaimOutcome:
    """Return an outcome that holds if one finding does and fails if each fails."""
    return _outcome([_part(findings, 1, "one must hold", lacking)])


def all_parts(numbers: Numbers, parts: Mapping[str, Sequence[ClaimCheck]], lacking: str) -> ClaimOutcome:
    """Combine the parts of a claim, which does not hold on some of them alone.

    Args:
        numbers: that the findings are from. The paper prints each part, some in tables of their own.
        parts: what each part is about, to its findings.
        lacking: explains that no part was compared.
    """
    there = [name for name, own in parts.items() if any(finding.compared for finding in own)]
    absent = [name for name in parts if name not in there] if there and not numbers.exact else []
    findings = [finding for own in parts.values() for finding in own]
    return all_of([*findings, *(ClaimCheck(UNKNOWN, f"{name}: not compared") for name in absent)], lacking)


def both(*outcomes: ClaimOutcome) -> ClaimOutcome:
    """Combine several parts of a claim, each with its own rule; the tests of all of them are one family."""
    return _outcome([part for outcome in outcomes for part in outcome.parts])


def decided_by_none(outcome: ClaimOutcome, why: str) -> ClaimOutcome:
    """Return an outcome that decides nothing, because of the runs behind its numbers."""
    parts = tuple(
        replace(part, findings=tuple(undecided(finding, why) for finding in part.findings)) for part in outcome.parts
    )
    findings = tuple(undecided(finding, why) for finding in outcome.findings)
    return replace(outcome, state=UNKNOWN, findings=findings, parts=parts)


def _part(findings: Sequence[ClaimCheck], least: int, rule: str, lacking: str) -> ClaimPart:
    if findings or not lacking:
        return ClaimPart(tuple(findings), least, rule)
    return ClaimPart((ClaimCheck(UNKNOWN, lacking),), 1, rule)


def _outcome(parts: Sequence[ClaimPart]) -> ClaimOutcome:
    """Combine parts: their findings are decided together, and each part by its rule."""
    every = [finding for part in parts for finding in part.findings]
    decided = iter(corrected(every))
    found = [replace(part, findings=tuple(next(decided) for _ in part.findings)) for part in parts]
    states = {_state(part) for part in found}
    state: State = FAILS if FAILS in states else HOLDS if states == {HOLDS} else UNKNOWN
    rules = list(dict.fromkeys(_rule(part) for part in found if len(part.findings) > 1))
    tests = tests_done(every)
    if tests > 1:
        rules.append(f"p and intervals are Holm-corrected over {tests} tests")
    return ClaimOutcome(state, tuple(f for part in found for f in part.findings), "; ".join(rules), tuple(found))


def _state(part: ClaimPart) -> State:
    states = [finding.state for finding in part.findings]
    if states and states.count(HOLDS) >= part.least:
        return HOLDS
    return FAILS if states and states.count(FAILS) > len(states) - part.least else UNKNOWN


def _rule(part: ClaimPart) -> str:
    held, count = sum(finding.state == HOLDS for finding in part.findings), len(part.findings)
    if part.least == count:
        return part.rule
    return f"{part.rule}: {held} of {count} do"
