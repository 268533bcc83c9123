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
        start: seconds before the first step, for data and model.
        pause: seconds after the last step, for scores on dev and a checkpoint; None if the steps were discarded at
            once.
    """

    total: int
    seconds: float
    start: float
    pause: float | None = None


class _EnoughError(Exception):
    """Ends the training once enough steps are timed."""


class _StepTimer(Silent):
    def __init__(self, steps: int | None) -> None:
        self.total = 0
        self.steps: list[int] = []
        self.times: list[float] = []
        self._enough = steps

    def begin(self, total: int, done: int) -> None:
        self.total = total
        self._note(done)

    def advance(self, step: int, loss: float | None) -> None:
        self._note(step)
        if self._enough is not None and step >= min(self._enough, self.total):
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


def time_first_steps(config: RunConfig, steps: int = _STEPS, *, pauses: bool = False) -> FirstSteps:
    """Train the first steps of a run, with its own data and method, and discard them.

    Nothing is pretrained on the task's texts, and the activation cache is off.

    Args:
        config: of the run.
        steps: to train.
        pauses: score dev and save a checkpoint after them, as a run that pauses does; otherwise nothing is scored.

    Raises:
        GradgateError: for anything that the run itself would stop at.
    """
    clock = _StepTimer(None if pauses else steps)
    quick: dict[str, Any] = {"eval_every": None, "save_every": None, "activation_cache": "off", "track": None}
    quick |= {"forgetting": None, "tapt_steps": None, "tapt_epochs": None}
    quick |= {"report_to": None, "test_each_epoch": None, "keep_checkpoints": None}
    if config.adapter is not None:
        quick["adapter"] = replace(config.adapter, tapt_steps=None, tapt_epochs=None)
    began = time.perf_counter()
    with TemporaryDirectory() as folder, suppress(_EnoughError):
        if pauses:
            train(config.model_copy(update=quick), folder, clock, until=steps)
        else:
            train(config.model_copy(update=quick), folder, clock)
    ended = time.perf_counter()
    return FirstSteps(clock.total, clock.seconds, clock.times[0] - began, ended - clock.times[-1] if pauses else None)
