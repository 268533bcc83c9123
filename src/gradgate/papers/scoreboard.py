"""Read what every claim is worth so far: on print, on its authors' runs, on real data, and on generated data.

The file is the installed copy of ``evidence/scoreboard.csv``: ``python -m evidence pages`` writes both from the
committed numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from gradgate.csv_rows import CsvRows
from gradgate.papers.claims.base import FAILS, HOLDS, UNKNOWN
from gradgate.papers.published import FOLDER

FILE = FOLDER / "scoreboard.csv"
SOURCES = ("printed", "authors", "real", "synthetic")


def _one_of(*known: str) -> AfterValidator:
    def check(text: str) -> str:
        if text not in known:
            raise ValueError(f"expected {', '.join(known)}")
        return text

    return AfterValidator(check)


@dataclass(frozen=True, kw_only=True)
class ScoreboardRow:
    """The verdict of one source of numbers on one claim.

    Attributes:
        claim: its id.
        source: ``printed`` numbers of the paper, the ``authors``' own runs, or runs with gradgate: of a ``real`` model
            on real data, or of the embedded model on ``synthetic`` data.
        verdict: ``holds``, ``fails`` or ``cannot tell``.
        seeds: the fewest of a score that was compared; 0 for printed numbers, and if nothing was compared.
        tasks: how many were compared.
        note: the number that decides, or what is lacking, and what limits the runs.
    """

    claim: str
    source: Annotated[str, _one_of(*SOURCES)]
    verdict: Annotated[str, _one_of(HOLDS, FAILS, UNKNOWN)]
    seeds: int
    tasks: int
    note: Annotated[str, BeforeValidator(lambda cell: cell or "")]


SCOREBOARD = CsvRows(ScoreboardRow, "python -m evidence pages")


@cache
def scoreboard() -> dict[str, dict[str, ScoreboardRow]]:
    """Return claim to source to its row."""
    found: dict[str, dict[str, ScoreboardRow]] = {}
    for row in SCOREBOARD.read(FILE):
        found.setdefault(row.claim, {})[row.source] = row
    return found
