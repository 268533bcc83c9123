"""Check every claim on the paper's numbers, its authors' runs, real data, and the embedded synthetic sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evidence.studies import RESULTS
from gradgate.papers.check import ClaimVerdict, check_printed, check_studies
from gradgate.papers.claims import Claim, ClaimOutcome, check, claims
from gradgate.papers.claims.base import FAILS, HOLDS, ClaimCheck
from gradgate.papers.claims.numbers import Numbers

AUTHORS = "authors"
CONTRADICTS = "the paper contradicts itself"
"""The verdict on printed numbers of which some hold and some fail."""
KINDS = (AUTHORS, "real", "synthetic")
"""The folders of results: runs of the authors, and our own on real and on generated data."""


@dataclass(frozen=True)
class Checked:
    """A claim with the verdict of each source.

    Attributes:
        printed: of the tables of the paper, one verdict per place where it prints the numbers.
        measured: the kind of data to the verdicts there, of those kinds that have something to compare: one on tasks of
            the paper, one on tasks that stand in for them, or both.
    """

    claim: Claim
    printed: tuple[ClaimVerdict, ...]
    measured: dict[str, tuple[ClaimVerdict, ...]]

    @property
    def is_decided(self) -> bool:
        """Whether the claim holds or fails on data of some kind."""
        return any(verdict.outcome.state != "cannot tell" for own in self.measured.values() for verdict in own)

    def states(self, kind: str) -> dict[str, str]:
        """Return the state on data of a kind, by the tasks that they are of: the paper's, or others in their place."""
        return {verdict.tasks: verdict.outcome.state for verdict in self.measured.get(kind, ())}


@cache
def check_all(results: Path = RESULTS) -> list[Checked]:
    """Check every claim on the numbers in a folder of results, those of one kind of data together."""
    there = [kind for kind in KINDS if (results / kind).is_dir()]
    measured = {kind: [each for each in check_studies([results / kind]) if each.checked] for kind in there}
    printed = check_printed()
    return [
        Checked(
            claim,
            _of(claim, printed),
            {kind: own for kind, verdicts in measured.items() if (own := _of(claim, verdicts))},
        )
        for claim in claims()
    ]


def deciding(outcome: ClaimOutcome) -> str:
    """Return the first part with the state of the outcome, and how many parts share it."""
    compared, alike = _parts(outcome)
    if not alike:  # what is compared passes, and another part is lacking
        return "; ".join(finding.text for finding in outcome.findings if not finding.compared)
    hold = sum(finding.state == HOLDS for finding in compared) if outcome.state == FAILS else 0
    others = f"; {hold} hold{'s' * (hold == 1)}" if hold else ""
    more = f" ({len(alike)} of {len(compared)} parts{others})" if len(compared) > 1 else ""
    return f"{alike[0].text}{more}"


def share_of_parts(outcome: ClaimOutcome) -> str:
    """Return how many parts have the state of the outcome, such as ``2 of 8 parts``; empty if all of them do."""
    compared, alike = _parts(outcome)
    return f"{len(alike)} of {len(compared)} parts" if 0 < len(alike) < len(compared) else ""


def _parts(outcome: ClaimOutcome) -> tuple[list[ClaimCheck], list[ClaimCheck]]:
    """Return the parts that were compared, and those of them with the state of the outcome."""
    every = [finding for part in outcome.parts for finding in part.findings] or outcome.findings
    compared = [finding for finding in every if finding.compared]
    return compared, [finding for finding in compared if finding.state == outcome.state]


def lacking(claim: Claim) -> str:
    """Return what a claim needs that no study here has, as the beginning of a sentence."""
    text = check(claim, Numbers({}, exact=False)).findings[0].text
    return f"{text[0].upper()}{text[1:]}"


def _of(claim: Claim, verdicts: Sequence[ClaimVerdict]) -> tuple[ClaimVerdict, ...]:
    return tuple(verdict for verdict in verdicts if verdict.claim.id == claim.id)
