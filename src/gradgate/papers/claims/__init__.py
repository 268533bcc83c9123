"""Test the papers' claims with pure functions of printed or measured numbers, one file per paper."""

from __future__ import annotations

from collections.abc import Sequence

from gradgate.errors import UsageError, nearest
from gradgate.papers.claims import adaptereff, elsa, fun, graddrop
from gradgate.papers.claims.base import Claim, ClaimCheck, ClaimOutcome, State
from gradgate.papers.claims.numbers import Numbers, is_of
from gradgate.papers.claims.rules import decided_by_none

__all__ = ["Claim", "ClaimCheck", "ClaimOutcome", "State", "check", "claims", "find_claim"]


def claims(paper: str | None = None) -> tuple[Claim, ...]:
    """Return the claims of all papers, or of the one with this key, in the papers' order."""
    every = (*elsa.CLAIMS, *graddrop.CLAIMS, *fun.CLAIMS, *adaptereff.CLAIMS)
    return tuple(claim for claim in every if paper in (None, claim.paper))


def find_claim(name: str) -> Claim:
    """Return the claim with this name, such as ``G1``.

    Raises:
        UsageError: naming the nearest.
    """
    known = {claim.id: claim for claim in claims()}
    if name.upper() not in known:
        raise UsageError(f"There is no claim {name!r}.{nearest(name, known)} Known: {', '.join(known)}.")
    return known[name.upper()]


def check(claim: Claim, numbers: Numbers) -> ClaimOutcome:
    """Check a claim on these numbers.

    A claim about GLUE, XNLI or other data is decided by these data alone: by the paper's own tasks, or by others of
    their kind.
    """
    if claim.check is None:
        return ClaimOutcome("cannot tell", (ClaimCheck("cannot tell", f"needs {claim.needs}"),))
    outcome = claim.check(numbers)
    if numbers.exact or not claim.about or not (numbers.stand_in or numbers.generated):
        return outcome
    if not numbers.generated:
        alike = claim.check(numbers.on_tasks(lambda task: is_of(task, claim.about)))
        if any(finding.compared for finding in alike.findings):
            return alike
    return decided_by_none(outcome, f"not on {_either(claim.about)}, which the claim is about")


def _either(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
