"""The budget of a study that was not trained, with a verdict that a test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gradgate.settings.budget import Budget
from gradgate.study.budget import Allocator, FullGrid
from gradgate.study.budget.file import BudgetRecord, write_budget
from gradgate.study.study_file import read_study_file


def give_budget(folder: Path, winners: Sequence[str], cheapest: str | None) -> BudgetRecord:
    """Write the budget of a whole grid, with a final verdict, into the folder of a study."""
    study = read_study_file(folder)
    grid = FullGrid(arms=study.arm_names, seeds=study.seeds, steps={study.task.name: 80})
    verdict = Allocator(grid, grid.total_steps).verdict({})
    record = BudgetRecord(
        allowance=Budget(steps=grid.total_steps),
        arms=grid.arms,
        seeds=grid.seeds,
        steps=grid.steps,
        steps_allowed=grid.total_steps,
        verdict=replace(verdict, winners=tuple(winners), decided=len(winners) == 1, cheapest=cheapest, tested=True),
        final=True,
    )
    write_budget(folder, record)
    return record
