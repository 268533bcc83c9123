"""The best arm of a grid for a part of its steps: what is known of the runs goes in, what to train next comes out."""

from gradgate.study.budget.allocator import Allocator
from gradgate.study.budget.full_grid import FullGrid, Progress, Request, RunKey
from gradgate.study.budget.standing import Observed
from gradgate.study.budget.verdict import Departure, Needed, Verdict

__all__ = ["Allocator", "Departure", "FullGrid", "Needed", "Observed", "Progress", "Request", "RunKey", "Verdict"]
