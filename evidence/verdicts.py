"""The verdicts on every claim: of the paper's own numbers, of real data, and of the embedded synthetic sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.studies import RESULTS
from gradgate.papers.check import Verdict, check_printed, check_studies
from gradgate.papers.claims import Claim, claims

KINDS = ("real", "synthetic")


@dataclass(frozen=True)
class Checked:
    """A claim with what each source says of it.

    Attributes:
        printed: of the tables of the paper, one verdict for each place where it prints the numbers.
        measured: the kind of data to the verdict there, of those kinds that have something to compare.
    """

    claim: Claim
    printed: tuple[Verdict, ...]
    measured: dict[str, Verdict]

    @property
    def told(self) -> bool:
        """Whether the claim holds or fails on data of some kind."""
        return any(verdict.outcome.state != "cannot tell" for verdict in self.measured.values())

    def studies(self, kind: str) -> list[str]:
        """The studies whose numbers give the verdict on data of a kind."""
        return [Path(part).stem for part in self.measured[kind].parts]


def check_all(results: Path = RESULTS) -> list[Checked]:
    """Every claim on the numbers in a folder of results, those of one kind of data together."""
    measured = {
        kind: {verdict.claim.id: verdict for verdict in check_studies([results / kind]) if verdict.checked}
        for kind in KINDS
        if (results / kind).is_dir()
    }
    printed = check_printed()
    return [
        Checked(
            claim,
            tuple(verdict for verdict in printed if verdict.claim.id == claim.id),
            {kind: by_claim[claim.id] for kind, by_claim in measured.items() if claim.id in by_claim},
        )
        for claim in claims()
    ]


def changed(found: Sequence[Checked], committed: Sequence[Checked]) -> Iterator[str]:
    """Claims whose verdict differs, in words; those that lack studies of the committed verdict are left out."""
    before = {each.claim.id: each for each in committed}
    for each in found:
        for kind, verdict in each.measured.items():
            then = before[each.claim.id]
            if kind not in then.measured or then.studies(kind) != each.studies(kind):
                continue
            state, was = verdict.outcome.state, then.measured[kind].outcome.state
            if state != was:
                yield f"{each.claim.id} on {kind} data: {state} here, {was} in the committed numbers"
