"""Say what would decide the claims that are open: what their studies lack, or how many more runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.verdicts import AUTHORS, Checked, lacking
from gradgate.papers.claims.base import FAILS, HOLDS, MANY_REPEATS, UNKNOWN, ClaimOutcome, ClaimPart, State

_INTRODUCTION = """\
## What would decide the rest

What a study needs to decide the claims that neither the authors' runs nor real data decide. Numbers of seeds or runs
are per arm, and would do with 80 % power if differences and spreads stay as they are.
"""


@dataclass(frozen=True)
class Enough:
    """How many seeds or runs would decide a claim, and how they would.

    Attributes:
        unit: ``seed`` or ``run``.
    """

    repeats: int
    unit: str
    state: State

    def __str__(self) -> str:
        """Return it in words."""
        shows = f"would show that it {self.state}"
        if self.repeats > MANY_REPEATS:
            return f"more than {MANY_REPEATS} {self.unit}s {shows}, as the difference is near the threshold"
        return f"about {self.repeats} {self.unit}s {shows}"


def deciding_section(claims: Sequence[Checked]) -> str:
    """Return the section of the scoreboard on claims that nothing real decides."""
    lines = [f"- **{each.claim.id}** {each.claim.wording} {'; '.join(_needs(each))}." for each in claims]
    return f"{_INTRODUCTION}\n{chr(10).join(lines)}"


def _needs(each: Checked) -> list[str]:
    """Return what a study must have, and the fewest seeds or runs that decide."""
    outcomes = [v.outcome for kind in (AUTHORS, "real") for v in each.measured.get(kind, ())]
    if not outcomes:
        need = lacking(each.claim)
        return [f"{need}, on real data" if need.startswith("Needs") else need]
    undecided = [finding for outcome in outcomes for finding in outcome.findings if finding.state == UNKNOWN]
    needs = list(dict.fromkeys(finding.limit for finding in undecided if finding.limit))[:3]
    enough = [found for outcome in outcomes if (found := enough_repeats(outcome))]
    needs += [str(min(enough, key=_count))] if enough else []
    needs += [finding.found for finding in undecided if not finding.claimed][:1]
    return [f"Now: {'; '.join(needs) or 'intervals contain the threshold, and no number of seeds follows'}"]


def enough_repeats(outcome: ClaimOutcome) -> Enough | None:
    """Return the fewest repeats that would decide an open claim by its rule, either way; None if no number follows."""
    failing = [way for part in outcome.parts if (way := _to_fail(part))]
    holding = [_to_hold(part) for part in outcome.parts if not _holds(part)]
    ways = [min(failing, key=_count)] if failing else []
    if holding and None not in holding:
        ways.append(max(filter(None, holding), key=_count))
    return min(ways, key=_count, default=None)


def _holds(part: ClaimPart) -> bool:
    return sum(finding.state == HOLDS for finding in part.findings) >= part.least


def _to_hold(part: ClaimPart) -> Enough | None:
    return _reached(part, HOLDS, part.least)


def _to_fail(part: ClaimPart) -> Enough | None:
    return _reached(part, FAILS, len(part.findings) - part.least + 1)


def _reached(part: ClaimPart, state: State, count: int) -> Enough | None:
    """Return the repeats with which as many findings have a state; None if fewer lean to it."""
    missing = count - sum(finding.state == state for finding in part.findings)
    leaning = [
        Enough(finding.repeats_needed, finding.repeat, state)
        for finding in part.findings
        if finding.state == UNKNOWN and finding.repeats_needed and finding.leans == state
    ]
    leaning.sort(key=_count)
    return leaning[missing - 1] if 0 < missing <= len(leaning) else None


def _count(enough: Enough) -> int:
    return enough.repeats
