"""``budget.json``: the budget of a study, how far it is spent, and what it found. It stands beside ``study.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import RunError
from gradgate.files import read_json, remedy
from gradgate.runs.records import read_record, write_record
from gradgate.settings.budget import Budget
from gradgate.study.budget.verdict import Verdict

BUDGET_FILE = "budget.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class BudgetRecord:
    """What is decided about a budgeted study; all else follows from the folders of its runs.

    Attributes:
        allowance: as it was asked for last.
        pace: seconds for a step, measured on the first runs; of a budget that is a time.
        arms, seeds: that the budget is spent on.
        steps: task to optimizer steps of one of its runs.
        steps_allowed: optimizer steps of all runs.
        earlier_verdicts: that were final before steps, seeds or arms were added.
        final: whether the verdict stands; else it says what is known so far.
        version: of this file's form.
    """

    allowance: Budget
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: Mapping[str, int]
    steps_allowed: int
    verdict: Verdict
    pace: float | None = None
    earlier_verdicts: int = 0
    final: bool = False
    version: int = VERSION

    @property
    def remaining(self) -> tuple[str, ...]:
        """The arms that have not left, the best first."""
        left = {departure.arm for departure in self.verdict.departures}
        ranked = [*self.verdict.winners, *(arm for arm in self.arms if arm not in self.verdict.winners)]
        return tuple(arm for arm in ranked if arm not in left)

    @property
    def headline(self) -> str:
        """Who won, or who leads: the first sentence of the verdict."""
        if self.final:
            return f"{self.verdict.summary.partition('. ')[0].removesuffix('.')}."
        leader = f"; {self.remaining[0]} leads so far" if self.verdict.steps_spent and self.remaining else ""
        return f"The race is under way with {len(self.remaining)} of {len(self.arms)} arms{leader}."

    @property
    def details(self) -> str:
        """How that was found, and what it would take to decide: the other sentences; empty while it is under way."""
        return self.verdict.summary.partition(". ")[2] if self.final else ""

    @property
    def spending(self) -> str:
        """What was spent, in a sentence."""
        found = self.verdict
        return (
            f"Budget: {found.steps_spent:,} of the grid's {found.steps_of_grid:,} optimizer steps were trained; "
            f"{found.steps_allowed:,} are allowed."
        )

    def record(self) -> dict[str, Any]:
        """Plain values, for scripts: ``budget`` and ``verdict``."""
        told = self.verdict.record()
        return {"budget": told["budget"], "verdict": {**told["verdict"], "final": self.final}}


def read_budget(folder: Path) -> BudgetRecord | None:
    """The budget of the study in a folder; None if it has none.

    Raises:
        RunError: if the file is damaged, or of a later version.
    """
    file = folder / BUDGET_FILE
    if not file.is_file():
        return None
    version = read_json(file).get("version")
    if version != VERSION:
        raise RunError(f"{file} is of version {version!r}, expected {VERSION}. {remedy(file)}")
    return read_record(file, BudgetRecord)


def write_budget(folder: Path, record: BudgetRecord) -> None:
    """Write ``budget.json``."""
    write_record(folder / BUDGET_FILE, record)
