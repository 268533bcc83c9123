"""Define the states of a run, and how far one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite

from gradgate.errors import DataError


class RunState(str, Enum):
    """The state of a run, in the word that files, tables and JSON use.

    A run is ``waiting`` if a worker may claim it, ``paused`` if it is to resume later from a step, ``pruned`` if a
    search ended it early, and ``missing`` if nothing of it exists.
    """

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    PRUNED = "pruned"
    MISSING = "missing"

    __str__ = str.__str__


@dataclass(frozen=True)
class Progress:
    """The progress of a run, with its scores on dev so far.

    Attributes:
        step: optimizer steps up to the latest pause, or all of a finished run.
        dev: optimizer step to the metric on dev, at evaluations and pauses, in the order of steps.
        seconds: of training up to ``step``; None if unknown. They name the cheapest arm of a budget, and decide
            nothing.
        state: ``paused``, ``finished``, ``failed``, or ``missing`` for a run that has not begun.
        losses: optimizer step to the loss on dev, which counts with the score of short runs. Early in a schedule
            whole grids score the same: every arm predicts the most frequent class, and its loss falls all the same.
        of_steps: optimizer steps of the whole run; None if unknown.
        metric: name of the metric in ``dev``.
    """

    step: int = 0
    dev: Mapping[int, float] = field(default_factory=dict)
    seconds: float | None = None
    state: RunState = RunState.PAUSED
    losses: Mapping[int, float] = field(default_factory=dict)
    of_steps: int | None = None
    metric: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the run ended with an error, or has a score that is not finite."""
        return self.state is RunState.FAILED or not all(map(isfinite, self.dev.values()))

    @property
    def score(self) -> float:
        """The latest score on dev."""
        return self.dev[max(self.dev)]

    def best(self, until: int, higher: bool) -> float | None:
        """Return the best score up to a step: that of the checkpoint that a run of this length would keep.

        Args:
            until: the step.
            higher: whether higher scores are better.

        Returns:
            None if the run has done fewer steps.

        Raises:
            DataError: if the run was not evaluated up to there.
        """
        if self.step < until:
            return None
        scores = [score for step, score in self.dev.items() if step <= until]
        if not scores:
            first = f"first is at step {min(self.dev)}" if self.dev else "training was never scored there"
            raise DataError(
                f"A run of {self.step} steps has no score on dev up to step {until}, where it must be compared; its "
                f"{first}. Evaluate every {until} steps or more often."
            )
        return max(scores) if higher else min(scores)

    def lowest_loss(self, until: int) -> float | None:
        """Return the lowest loss up to a step; None if none is known."""
        return min((loss for step, loss in self.losses.items() if step <= until), default=None)

    def __str__(self) -> str:
        return f"step {self.step} of {self.of_steps}"
