"""The papers, presets and claims as plain records, for scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import UsageError, nearest
from gradgate.papers.claims import Claim, Outcome, check, claims
from gradgate.papers.measured import numbers_of_study
from gradgate.papers.numbers import Numbers, printed, together
from gradgate.papers.preset import presets
from gradgate.papers.published import papers
from gradgate.papers.reproduce import is_reproduction, read_reproduction
from gradgate.report.formats import counted
from gradgate.study.parts import part_folders
from gradgate.study.results import read_study


def paper_key(name: str) -> str:
    """The key of a paper by its key or its name, in any case.

    Raises:
        UsageError: naming the nearest.
    """
    known = {paper.name.lower(): key for key, paper in papers().items()}
    if name.lower() not in known:
        raise UsageError(f"There is no paper {name!r}.{nearest(name, known)} Known: {', '.join(known)}.")
    return known[name.lower()]


def paper_records(only: str | None = None) -> list[dict[str, Any]]:
    """One record a paper."""
    return [
        {
            "paper": key,
            "title": paper.title,
            "authors": paper.authors,
            "link": paper.link,
            "presets": [
                {"name": preset.name, "table": preset.table, "title": preset.title, "runs": len(preset.cells())}
                for preset in presets().values()
                if preset.paper == key
            ],
            "claims": [
                {"claim": claim.id, "wording": claim.wording, "checked": claim.check is not None}
                for claim in claims(key)
            ],
        }
        for key, paper in papers().items()
        if only in (None, key)
    ]


@dataclass(frozen=True)
class Verdict:
    """A claim and what one source of numbers says of it. ``source``: a study, or tables of the paper."""

    claim: Claim
    outcome: Outcome
    source: str
    notes: tuple[str, ...] = ()

    @property
    def checked(self) -> bool:
        """Whether the source had anything to compare: a number stands in one of the findings."""
        return any("claimed" in finding.text for finding in self.outcome.findings)

    def record(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "claim": self.claim.id,
            "paper": self.claim.paper,
            "wording": self.claim.wording,
            "source": self.source,
            "state": self.outcome.state,
            "rule": self.outcome.rule,
            "findings": [{"state": finding.state, "text": finding.text} for finding in self.outcome.findings],
            "notes": list(self.notes),
        }


def check_printed(paper: str | None = None) -> list[Verdict]:
    """Every claim on the numbers that its paper prints; those that it prints none for cannot be told."""
    return [
        Verdict(claim, check(claim, printed(source)), _tables(source))
        for claim in claims(paper)
        for source in claim.sources or ((),)
    ]


def check_study(folder: Path, paper: str | None = None) -> list[Verdict]:
    """Every claim of a paper, or of all of them, on a study or a reproduction.

    Raises:
        RunError: if the folder holds neither.
    """
    if is_reproduction(folder):
        reproduction = read_reproduction(folder)
        own = reproduction.preset.paper
        return _check(own, reproduction.numbers(), str(folder)) if paper in (None, own) else []
    parts = [read_study(part) for part in part_folders(folder)]
    wanted = papers() if paper is None else [paper]
    numbers = {key: together([numbers_of_study(key, part) for part in parts]) for key in wanted}
    return [verdict for key in wanted for verdict in _check(key, numbers[key], str(folder))]


def _check(paper: str, numbers: Numbers, source: str) -> list[Verdict]:
    return [Verdict(claim, check(claim, numbers), source, numbers.notes) for claim in claims(paper)]


def _tables(source: tuple[str, ...]) -> str:
    if not source:
        return "not printed"
    return source[0] if len(source) == 1 else f"{source[0]} and {counted(len(source) - 1, 'table')} more"
