"""The verdicts on every claim: of the paper's own numbers, of real data, and of the embedded synthetic sample."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from evidence.studies import RESULTS, Study
from gradgate.papers.check import Verdict, check_printed, check_studies
from gradgate.papers.claims import Claim, claims
from gradgate.papers.claims.numbers import SECONDS
from gradgate.papers.recorded import read_numbers

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


def changed(studies: Sequence[Study], results: Path, committed: Path = RESULTS) -> Iterator[str]:
    """Claims whose verdict on these studies alone differs from that on their committed numbers, in words."""
    then = {each.claim.id: each for each in _check_alone(studies, committed)}
    for each in _check_alone(studies, results):
        before = then[each.claim.id].measured
        for kind in sorted(each.measured.keys() | before.keys()):
            here, was = (_state(found.get(kind)) for found in (each.measured, before))
            if here != was:
                yield f"{each.claim.id} on {kind} data: {here} here, {was} in the committed numbers"


def equal_numbers(study: Study, results: Path, committed: Path = RESULTS) -> tuple[int, int]:
    """How many of a study's committed numbers are the same to the last digit, and how many there are; without times."""
    then, now = (read_numbers(folder / study.file)[study.paper].scores for folder in (committed, results))
    pairs = [
        (value, now.get(key, {}).get(seed))
        for key, by_seed in then.items()
        if key.on != SECONDS
        for seed, value in by_seed.items()
    ]
    return sum(one == other for one, other in pairs), len(pairs)


def _check_alone(studies: Sequence[Study], results: Path) -> list[Checked]:
    with TemporaryDirectory() as folder:
        for study in studies:
            file = Path(folder) / study.file
            file.parent.mkdir(exist_ok=True)
            shutil.copyfile(results / study.file, file)
        return check_all(Path(folder))


def _state(verdict: Verdict | None) -> str:
    return "not compared" if verdict is None else verdict.outcome.state
