"""Progress notes say what leads and what has left, each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gradgate.settings.budget import Budget
from gradgate.study.budget import Allocator
from gradgate.study.budget.file import BudgetRecord, write_budget
from gradgate.study.budget.notes import LeaderNotes
from gradgate.study.progress import SilentStudy
from support.simulated_runs import batches, full_grid, noisy


class Notes(SilentStudy):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_leaders_and_departures_are_said_once(tmp_path: Path) -> None:
    grid, seen = full_grid(6, 3), Notes()
    allocator = Allocator(grid, grid.total_steps // 2)
    progress = LeaderNotes(tmp_path, seen)
    progress.begin_run("before the file is there")
    assert seen.texts == []
    for _, known in batches(allocator, noisy(np.arange(6.0) * 3, 3, 1.0, 0)):
        verdict = allocator.verdict(known)
        write_budget(
            tmp_path,
            BudgetRecord(
                allowance=Budget(share=0.5),
                arms=grid.arms,
                seeds=grid.seeds,
                steps=dict(grid.steps),
                steps_allowed=allocator.steps_allowed,
                verdict=verdict,
            ),
        )
        progress.begin_run("one")
        progress.begin_run("another")
    reasons = [left.reason for left in verdict.departures]
    assert reasons
    assert [text for text in seen.texts if " was dropped after " in text] == reasons
    leaders = [text for text in seen.texts if " has the best mean on dev; " in text]
    assert leaders[0].startswith("a5 has the best mean on dev; ")
    assert len(set(leaders)) == len(leaders)
    progress.note("passed on")
    assert seen.texts[-1] == "passed on"
