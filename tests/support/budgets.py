"""The record of a budget that is spent, of two arms with three seeds: one won, the other left at an eighth."""

from __future__ import annotations

from gradgate.settings.budget import Budget
from gradgate.study.budget import BudgetVerdict, Departure
from gradgate.study.budget.file import BudgetRecord

VERDICT = BudgetVerdict(
    winners=("full",),
    decided=True,
    method="full",
    cheapest="full",
    confidence=0.95,
    how="A test.",
    unsettled=(),
    p=0.01,
    pairs=3,
    step_share=1.0,
    steps_of_grid=480,
    steps_allowed=300,
    steps_spent=260,
    departures=(Departure("gradual:every=40", 0.125, 2, 2, 2, 0.15),),
    not_looked_at="4 of 6 runs were not begun.",
    needed=None,
)
RECORD = BudgetRecord(
    allowance=Budget(steps=300),
    arms=("full", "gradual:every=40"),
    seeds=(0, 1, 2),
    steps={"toy": 80},
    steps_allowed=300,
    verdict=VERDICT,
    final=True,
)
