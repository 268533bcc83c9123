"""Define the full grid that a budget trains a part of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gradgate.errors import UsageError

EIGHTHS = (1, 2, 4, 8)
"""Lengths of runs, in eighths of the schedule. A run pauses at each of them, and may resume."""


class RunKey(NamedTuple):
    """The name of one run of a grid."""

    arm: str
    task: str
    seed: int


Targets = Mapping[RunKey, int]
"""Runs to train, each with the optimizer step of its own schedule to stop at; a run that has begun is resumed."""


@dataclass(frozen=True, kw_only=True)
class FullGrid:
    """Every arm with every seed of every task, each run to its end.

    Arms share seeds and the order of the data, so that each (task, seed) is a pair. Several tasks have equal weight:
    their scores are averaged as they are, and need one metric.

    Args:
        arms: labels, each a method on an adapter at a rate, in the order that settles equal scores.
        seeds: in the order in which they are used.
        steps: task to optimizer steps of one of its runs.
        methods: arm to its method, for arms that are one method at several rates; an arm that is absent is its own.
        higher_is_better: of the scores on dev.
        factor: what sentences multiply differences of scores by: 100 for shares.

    Raises:
        UsageError: without arms, seeds or tasks, for one that is named twice, or for a task without steps.
    """

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: Mapping[str, int]
    methods: Mapping[str, str] = field(default_factory=dict)
    higher_is_better: bool = True
    factor: int = 1

    def __post_init__(self) -> None:
        wrong = [
            f"{len(values)} {what}, {len(set(values))} of them different (expected 1 or more, each once)"
            for what, values in (("arms", self.arms), ("seeds", self.seeds), ("tasks", tuple(self.steps)))
            if not values or len(set(values)) != len(values)
        ]
        wrong += [f"{steps} steps of {task} (expected 1 or more)" for task, steps in self.steps.items() if steps < 1]
        if wrong:
            raise UsageError(f"The grid cannot be allocated: {'; '.join(wrong)}. Use a grid with runs.")

    @cached_property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.arms) * len(self.seeds) * len(self.steps)

    @cached_property
    def total_steps(self) -> int:
        """The optimizer steps of all runs."""
        return len(self.arms) * len(self.seeds) * self.seed_steps(8)

    def until(self, task: str, eighths: int) -> int:
        """Return the step of a task's runs at n eighths of the schedule, rounded up."""
        return -(-self.steps[task] * eighths // 8)

    def seed_steps(self, eighths: int) -> int:
        """Return the steps of one arm with one seed on all tasks, up to n eighths of the schedule."""
        return sum(self.until(task, eighths) for task in self.steps)

    def method_of(self, arm: str) -> str:
        """Return the method of an arm."""
        return self.methods.get(arm, arm)
