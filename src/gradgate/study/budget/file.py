"""Read and write ``budget.json``, which is next to ``study.json``: a study's budget, its spending, its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.runs.records import find_record, write_record
from gradgate.settings.arms.recorded import ArmName
from gradgate.settings.budget import Budget
from gradgate.study.budget.verdict import BudgetVerdict

BUDGET_FILE = "budget.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class BudgetRecord:
    """The content of ``budget.json``; everything else about a budgeted study follows from the folders of its runs.

    Attributes:
        allowance: the budget as it was last asked for.
        promise: what the plan can decide and what it cannot, in words; empty in files of earlier versions.
        pace: seconds per step, measured on the first runs, for a budget that is a time.
        arms, seeds: that the budget is spent on.
        steps: task to optimizer steps of one of its runs.
        steps_allowed: optimizer steps of all runs.
        earlier_verdicts: that were final before steps, seeds or arms were added.
        looks_early: whether a clear winner may end the budget early; not after it was raised before its verdict.
        final: whether the verdict is final; else it says what is known so far.
        version: of this file's form.
    """

    allowance: Budget
    arms: tuple[ArmName, ...]
    seeds: tuple[int, ...]
    steps: Mapping[str, int]
    steps_allowed: int
    verdict: BudgetVerdict
    promise: str = ""
    pace: float | None = None
    earlier_verdicts: int = 0
    looks_early: bool = True
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
        """A sentence on who won or leads."""
        if self.final:
            return self.verdict.headline
        begun = self.verdict.steps_spent and self.remaining
        first = f"; {self.remaining[0]} {self.verdict.rank} so far" if begun else ""
        return f"The budget is being spent: {len(self.remaining)} of {len(self.arms)} arms remain{first}."

    @property
    def details(self) -> str:
        """Sentences on how that was found, and what it would take to decide; empty while the budget is being spent."""
        return self.verdict.details if self.final else ""

    @property
    def spending(self) -> str:
        """A sentence on what was spent."""
        verdict = self.verdict
        return (
            f"Budget: {verdict.steps_spent:,} of the grid's {verdict.steps_of_grid:,} optimizer steps were trained; "
            f"{verdict.steps_allowed:,} are allowed."
        )

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts: ``budget`` and ``verdict``."""
        record = self.verdict.record()
        return {
            "budget": {**record["budget"], "promise": self.promise},
            "verdict": {**record["verdict"], "final": self.final},
        }


def read_budget(folder: Path) -> BudgetRecord | None:
    """Read the budget of the study in a folder; return None if it has none.

    Raises:
        RunError: if the file is damaged, or of another version.
    """
    return find_record(folder / BUDGET_FILE, BudgetRecord, VERSION)


def write_budget(folder: Path, record: BudgetRecord) -> None:
    """Write ``budget.json``."""
    write_record(folder / BUDGET_FILE, record)
