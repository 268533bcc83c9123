"""Find the best arm of a grid for a part of its steps: progress of runs in, the runs to train next out."""

from gradgate.study.budget.allocator import Allocator
from gradgate.study.budget.full_grid import FullGrid, RunKey, Targets
from gradgate.study.budget.standing import Observed
from gradgate.study.budget.verdict import BudgetVerdict, Departure, Needed

__all__ = ["Allocator", "BudgetVerdict", "Departure", "FullGrid", "Needed", "Observed", "RunKey", "Targets"]
