"""Time a step of a run: train the first steps in a temporary folder."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from gradgate.runs.progress import Silent
from gradgate.settings.run import RunConfig
from gradgate.training.run import train

_WARM_UP = 2  # steps that load kernels and fill caches
_STEPS = 8


@dataclass(frozen=True)
class FirstSteps:
    """The timing of a run's first steps.

    Attributes:
        total: optimizer steps of the whole run.
        seconds: per step: the median of the steps after the second, or the last step of a shorter run.
    """

    total: int
    seconds: float


class _EnoughError(Exception):
    """Ends the training once enough steps are timed."""


class _StepTimer(Silent):
    def __init__(self) -> None:
        self.total = 0
        self.steps: list[int] = []
        self.times: list[float] = []

    def begin(self, total: int, done: int) -> None:
        self.total = total
        self._note(done)

    def advance(self, step: int, loss: float | None) -> None:
        self._note(step)
        if step >= min(_STEPS, self.total):
            raise _EnoughError

    @property
    def seconds(self) -> float:
        """Seconds per step. A probe takes all its steps at once."""
        took = [
            (after - before) / (later - earlier)
            for before, after, earlier, later in zip(
                self.times, self.times[1:], self.steps, self.steps[1:], strict=False
            )
        ]
        return median(took[_WARM_UP:] or took[-1:])

    def _note(self, step: int) -> None:
        self.steps.append(step)
        self.times.append(time.perf_counter())


def time_first_steps(config: RunConfig) -> FirstSteps:
    """Train the first 8 steps of a run, with its own data and method, and discard them.

    Nothing is scored on dev or test, nothing is pre-trained on the task's texts, and the activation cache is off.

    Raises:
        GradgateError: for anything that the run itself would stop at.
    """
    clock = _StepTimer()
    quick: dict[str, Any] = {"eval_every": None, "save_every": None, "activation_cache": "off", "track": None}
    quick |= {"forgetting": None, "tapt_steps": None, "tapt_epochs": None}
    if config.adapter is not None:
        quick["adapter"] = replace(config.adapter, tapt_steps=None, tapt_epochs=None)
    with TemporaryDirectory() as folder, suppress(_EnoughError):
        train(config.model_copy(update=quick), folder, clock)
    return FirstSteps(clock.total, clock.seconds)
