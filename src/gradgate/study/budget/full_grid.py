"""What a budget is spent on: the runs of a full grid, and what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import NamedTuple

from gradgate.errors import DataError, UsageError

EIGHTHS = (1, 2, 4, 8)
"""Lengths of runs, in eighths of the schedule: a run pauses at each of them, and may go on."""


class RunKey(NamedTuple):
    """One run of the grid."""

    arm: str
    task: str
    seed: int


class Request(NamedTuple):
    """Train a run until an optimizer step of its own schedule; it is resumed where it was begun before."""

    arm: str
    task: str
    seed: int
    until_step: int

    @property
    def key(self) -> RunKey:
        """The run."""
        return RunKey(self.arm, self.task, self.seed)


@dataclass(frozen=True)
class Progress:
    """What is known of a run.

    Attributes:
        step: optimizer steps done.
        dev: optimizer step to the score on dev there.
        seconds: of training so far; None where they are not known. They name the cheapest arm, and decide nothing.
        failed: whether it ended with an error.
        losses: optimizer step to the loss on dev there, which counts beside the score of short runs. Early in a
            schedule whole grids score the same: every arm predicts the most frequent class, and its loss falls all
            the same.
    """

    step: int = 0
    dev: Mapping[int, float] = field(default_factory=dict)
    seconds: float | None = None
    failed: bool = False
    losses: Mapping[int, float] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error or with a score that is no number."""
        return self.failed or not all(map(isfinite, self.dev.values()))

    def best(self, until: int, higher: bool) -> float | None:
        """The best score up to a step, which is that of the checkpoint that a run of this length would keep.

        None where the run has not done so many steps.

        Raises:
            DataError: if the run was not evaluated up to there.
        """
        if self.step < until:
            return None
        scores = [score for step, score in self.dev.items() if step <= until]
        if not scores:
            first = min(self.dev, default=None)
            raise DataError(
                f"A run of {self.step} steps has no score on dev up to step {until}, where it is to be compared; its "
                f"first is at step {first}. Evaluate every {until} steps or more often."
            )
        return max(scores) if higher else min(scores)

    def lowest_loss(self, until: int) -> float | None:
        """The lowest loss up to a step; None where none is known."""
        return min((loss for step, loss in self.losses.items() if step <= until), default=None)


@dataclass(frozen=True, kw_only=True)
class FullGrid:
    """Every arm with every seed of every task, each run to its end.

    Arms share seeds and the order of the data, so that a (task, seed) is a pair. Several tasks count alike: their
    scores are averaged as they are, and need one metric.

    Args:
        arms: labels, each a method on an adapter at a rate, in the order that settles equal scores.
        seeds: in the order in which they are used.
        steps: task to optimizer steps of one of its runs.
        methods: arm to its method, for arms that are one method at several rates; an arm that is absent is its own.
        higher_is_better: of the scores on dev.

    Raises:
        UsageError: without arms, seeds or tasks, for one that is named twice, or for a task without steps.
    """

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: Mapping[str, int]
    methods: Mapping[str, str] = field(default_factory=dict)
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        wrong = [
            f"{len(values)} {what}, {len(set(values))} of them different (expected 1 or more, each once)"
            for what, values in (("arms", self.arms), ("seeds", self.seeds), ("tasks", tuple(self.steps)))
            if not values or len(set(values)) != len(values)
        ]
        wrong += [f"{steps} steps of {task} (expected 1 or more)" for task, steps in self.steps.items() if steps < 1]
        if wrong:
            raise UsageError(f"The grid cannot be allocated: {'; '.join(wrong)}. Give a grid with runs.")

    @cached_property
    def runs(self) -> int:
        """How many runs the grid has."""
        return len(self.arms) * len(self.seeds) * len(self.steps)

    @cached_property
    def total_steps(self) -> int:
        """The optimizer steps of all runs."""
        return len(self.arms) * len(self.seeds) * self.seed_steps(8)

    def until(self, task: str, eighths: int) -> int:
        """The step of a task's runs at so many eighths of the schedule, rounded up."""
        return -(-self.steps[task] * eighths // 8)

    def seed_steps(self, eighths: int) -> int:
        """The steps of one arm with one seed on all tasks, to so many eighths."""
        return sum(self.until(task, eighths) for task in self.steps)

    def method_of(self, arm: str) -> str:
        """The method of an arm."""
        return self.methods.get(arm, arm)
