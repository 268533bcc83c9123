"""Line up evaluations of runs whose epochs differ in length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median_low
from typing import Protocol


class Evaluation(Protocol):
    """An evaluation during training."""

    @property
    def step(self) -> int:
        """Optimizer steps until then."""

    @property
    def epoch(self) -> float | None:
        """Passes over the training data until then; None if that was not noted."""


def shared_steps(evaluations: Iterable[Evaluation]) -> Callable[[Evaluation], int]:
    """Return where each evaluation is drawn: at its own step, or at one for all evaluations after the same epoch.

    Seeds that draw other training texts can have epochs of other lengths, as a long text becomes several windows. Runs
    that are evaluated after each epoch then share epochs, not steps: each epoch has the median of their steps.

    Args:
        evaluations: of one arm's runs, as another arm may have batches of another size.
    """
    steps: dict[float | None, list[int]] = defaultdict(list)
    for evaluation in evaluations:
        steps[evaluation.epoch].append(evaluation.step)
    if None in steps or len(steps) >= len({step for found in steps.values() for step in found}):
        return lambda evaluation: evaluation.step
    shared = {epoch: median_low(found) for epoch, found in steps.items()}
    return lambda evaluation: shared[evaluation.epoch]
