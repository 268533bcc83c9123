"""Measure what arms cost on this machine: a step of each, and what a run needs besides its steps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

from gradgate.errors import GradgateError
from gradgate.methods.fixed import Fixed, Probe
from gradgate.runs.records import DEV, TRAIN
from gradgate.settings.arms.arm import Arm
from gradgate.settings.run import RunConfig
from gradgate.study.progress import StudyProgress
from gradgate.study.recommend.portfolio import LeftOut

if TYPE_CHECKING:
    from gradgate.runs.records import TaskRecord

_FIRST, _OTHERS = 4, 3  # steps that are timed
_PROCESS = 1.5  # seconds to start and end the process of a run, beyond what is timed in this one
_FEATURES = 2 / 3  # of a step, to compute the features of its rows one by one, as the cache does
_FIT = 2.0  # seconds of a logistic regression


@dataclass(frozen=True, kw_only=True)
class ArmCost:
    """The time that the runs of one arm take, in seconds.

    Attributes:
        step: of one optimizer step.
        piece: each time that a run begins or resumes, until it pauses: data, model, scores on dev, a checkpoint.
        scoring: of the scores on dev within training, per step.
        once: of the first run alone, as for features that later runs read from the cache.
        tests: of the scores on test, at the end of a run.
    """

    step: float
    piece: float
    scoring: float
    once: float
    tests: float

    def seconds(self, steps: int, pieces: int) -> float:
        """Return the seconds of steps that a run takes in pieces."""
        return pieces * self.piece + steps * (self.step + self.scoring)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of the arms of a portfolio.

    Attributes:
        steps: of one whole run.
        arms: arm to its cost.
        left_out: arms whose first steps could not be trained, and why.
    """

    steps: int
    arms: Mapping[str, ArmCost]
    left_out: tuple[LeftOut, ...] = field(default=())

    def of(self, arms: Mapping[str, str], steps: int) -> Costs:
        """Return the costs of runs of another length, whose arms have other names: new name to the one measured."""
        return replace(self, steps=steps, arms={name: self.arms[measured] for name, measured in arms.items()})


def measure_costs(
    arms: Sequence[Arm], config: RunConfig, task: TaskRecord, seconds: float, progress: StudyProgress
) -> Costs:
    """Train the first steps of arms, and discard them.

    Args:
        arms: the first is timed with its scores on dev, and stands for others in what they share.
        config: the settings that all arms share.
        task: of the data.
        seconds: for all of it. Arms that are left then count as the slowest one that was timed.
        progress: is told of each arm.

    Raises:
        GradgateError: if the first arm cannot be trained.
    """
    from gradgate.training.first_steps import time_first_steps  # imports torch

    ends = time.monotonic() + seconds
    first, *others = arms
    progress.note(f"Timing the first steps of {len(arms)} methods.")
    timed = time_first_steps(config.model_copy(update=first.settings), _FIRST, pauses=True)
    steps, left_out = _step_seconds(first, timed.seconds, others, config, ends)
    dev = timed.pause or 0.0
    per_epoch = max(1, ceil(task.rows.get(TRAIN, 1) / (config.batch_size * config.accumulate)))
    tests = sum(rows for split, rows in task.rows.items() if split not in (TRAIN, DEV)) / max(1, task.rows.get(DEV, 1))
    shared = {
        "piece": timed.start + dev + _PROCESS,
        "scoring": dev / (config.eval_every or per_epoch),
        "tests": 0.0 if config.skip_test else dev * tests,
    }
    costs = {arm.name: ArmCost(step=step, once=0.0, **shared) for arm, step in steps.items()}
    features = _FEATURES * timed.seconds * per_epoch
    fitted = shared | {"piece": shared["piece"] + _FIT, "scoring": 0.0}
    costs |= {arm.name: ArmCost(step=0.0, once=features, **fitted) for arm in arms if isinstance(arm.method, Probe)}
    return Costs(steps=timed.total, arms=costs, left_out=tuple(left_out))


def _step_seconds(
    first: Arm, seconds: float, others: Sequence[Arm], config: RunConfig, ends: float
) -> tuple[dict[Arm, float], list[LeftOut]]:
    """Return the seconds of a step of each arm but probes, which have no steps, and the arms that cannot be trained.

    Only methods that never change are timed: the first steps of others show nothing of later ones, as gradual
    unfreezing begins with the top alone. These, and arms that are left when time is up, count as the slowest of those
    that were timed. If one is slower still, the race's clock notices while it trains.

    Args:
        first: the arm that was timed.
        seconds: of its step.
        others: the arms to time.
        config: the settings that all arms share.
        ends: when time is up, by :func:`time.monotonic`.
    """
    from gradgate.training.first_steps import time_first_steps  # imports torch

    timed, left_out, untimed = {first: seconds}, [], []
    trained = [arm for arm in others if not isinstance(arm.method, Probe)]
    for arm in trained:
        if not isinstance(arm.method, Fixed) or time.monotonic() >= ends:
            untimed.append(arm)
            continue
        try:
            timed[arm] = time_first_steps(config.model_copy(update=arm.settings), _OTHERS).seconds
        except GradgateError as error:
            left_out.append(LeftOut(arm.name, str(error)))
    found = timed | dict.fromkeys(untimed, max(timed.values()))
    return {arm: found[arm] for arm in (first, *trained) if arm in found}, left_out
