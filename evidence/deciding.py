"""Say what would decide the claims that are open: what their studies lack, or how many more runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.verdicts import AUTHORS, Checked, lacking
from gradgate.papers.check import ClaimVerdict
from gradgate.papers.claims.base import FAILS, HOLDS, MANY_REPEATS, UNKNOWN, ClaimOutcome, ClaimPart, State

_INTRODUCTION = """\
## What would decide the rest

What a study needs to decide the claims that neither the authors' runs nor real data decide. Numbers of seeds or runs
are per arm. They give a part of the claim 80 % power if its difference and spread are as observed, without collapsed
runs; the part that deviates most of many may do so by chance.
"""


@dataclass(frozen=True)
class RequiredRepeats:
    """How many seeds or runs would decide a claim, and how they would.

    Attributes:
        unit: ``seed`` or ``run``.
        parts: how many the deciding part was picked from; 1 if all must be decided.
    """

    repeats: int
    unit: str
    state: State
    parts: int = 1

    def __str__(self) -> str:
        """Return it in words."""
        number = f"about {self.repeats}" if self.repeats <= MANY_REPEATS else f"more than {MANY_REPEATS}"
        picked = f", by one of {self.parts} parts" if self.parts > 1 else ""
        return f"{number} {self.unit}s would show that it {self.state}{picked}"


def deciding_section(claims: Sequence[Checked]) -> str:
    """Return the section of the scoreboard on claims that nothing real decides."""
    lines = [f"- **{each.claim.id}** {each.claim.wording} {'; '.join(_needs(each))}." for each in claims]
    return f"{_INTRODUCTION}\n{chr(10).join(lines)}"


def _needs(each: Checked) -> list[str]:
    """Return what a study must have, and how many seeds or runs of each source would decide."""
    verdicts = [(kind, verdict) for kind in (AUTHORS, "real") for verdict in each.measured.get(kind, ())]
    if not verdicts:
        need = lacking(each.claim)
        return [f"{need}, on real data" if need.startswith("Needs") else need]
    undecided = [finding for _, v in verdicts for finding in v.outcome.findings if finding.state == UNKNOWN]
    needs = []
    for kind, verdict in verdicts:
        limits = dict.fromkeys(limit for f in verdict.outcome.findings if f.state == UNKNOWN for limit in f.limits)
        where = f"{_where(kind, verdict)}: " if len(verdicts) > 1 else ""
        needs += [f"{where}{limit}" for limit in limits]
    for kind, verdict in verdicts:
        if required := required_repeats(verdict.without_collapsed or verdict.outcome):
            needs.append(f"{_where(kind, verdict)}, {required}" if len(verdicts) > 1 else str(required))
    needs += [finding.found for finding in undecided if not finding.claimed][:1]
    return [f"Now: {'; '.join(needs) or 'intervals contain the threshold, and no number of seeds follows'}"]


def _where(kind: str, verdict: ClaimVerdict) -> str:
    return "in the authors' runs" if kind == AUTHORS else f"on {verdict.tasks}"


def required_repeats(outcome: ClaimOutcome) -> RequiredRepeats | None:
    """Return the fewest repeats that would decide an open claim by its rule, either way; None if no number follows."""
    failing = [way for part in outcome.parts if (way := _to_fail(part))]
    holding = [_to_hold(part) for part in outcome.parts if not _holds(part)]
    ways = [min(failing, key=_count)] if failing else []
    if holding and None not in holding:
        ways.append(max(filter(None, holding), key=_count))
    return min(ways, key=_count, default=None)


def _holds(part: ClaimPart) -> bool:
    return sum(finding.state == HOLDS for finding in part.findings) >= part.least


def _to_hold(part: ClaimPart) -> RequiredRepeats | None:
    return _reached(part, HOLDS, part.least)


def _to_fail(part: ClaimPart) -> RequiredRepeats | None:
    return _reached(part, FAILS, len(part.findings) - part.least + 1)


def _reached(part: ClaimPart, state: State, count: int) -> RequiredRepeats | None:
    """Return the repeats with which as many findings have a state; None if fewer lean to it."""
    missing = count - sum(finding.state == state for finding in part.findings)
    picked_from = len(part.findings) if count < len(part.findings) else 1
    leaning = [
        RequiredRepeats(finding.repeats_needed, finding.repeat, state, picked_from)
        for finding in part.findings
        if finding.state == UNKNOWN and finding.repeats_needed and finding.leans == state
    ]
    leaning.sort(key=_count)
    return leaning[missing - 1] if 0 < missing <= len(leaning) else None


def _count(required: RequiredRepeats) -> int:
    return required.repeats
