"""Find the arms of a portfolio that fit the model and the device."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from gradgate.errors import AdapterError, GradgateError, LayerMapError, RunError, UsageError
from gradgate.runs.records import TRAIN
from gradgate.settings.arms.arm import Arm
from gradgate.settings.run import RunConfig
from gradgate.study.recommend.portfolio import LeftOut, Portfolio, Subject, installed_packages

if TYPE_CHECKING:
    from gradgate.runs.records import TaskRecord
    from gradgate.training.preview import Preview

_GIB = 2**30


def subject_of(config: RunConfig, seen: Preview) -> Subject:
    """Return the properties of a model and its data that a portfolio depends on."""
    return Subject(
        layers=max(1, seen.layers.layer_count),
        parameters=seen.model.parameters,
        steps=_steps(config, seen.task.rows.get(TRAIN, 1)),
        kind=seen.task.kind,
        is_multitask=bool(seen.task.tasks),
        quantization=seen.quantization,
        installed=installed_packages(),
    )


def _steps(config: RunConfig, rows: int) -> int:
    """Return about the optimizer steps of one run; a row may become several examples."""
    if config.steps is not None:
        return config.steps
    taken, epochs = min(rows, config.train_size or rows), float(config.length["num_train_epochs"])
    return max(1, round(ceil(taken / (config.batch_size * config.accumulate)) * epochs))


def fitting(portfolio: Portfolio, config: RunConfig, seen: Preview) -> Portfolio:
    """Return the portfolio without arms that the model refuses or that need more memory than the device has."""
    room = free_bytes(config)
    chosen, left_out = [], list(portfolio.left_out)
    for arm in portfolio.arms:
        reason = _refused(arm, config, seen) or _too_large(arm, config, seen.task, room)
        if reason is None:
            chosen.append(arm)
        else:
            left_out.append(LeftOut(arm.name, reason))
    return replace(portfolio, arms=tuple(chosen), left_out=tuple(left_out))


def free_bytes(config: RunConfig) -> int:
    """Free memory of the device that runs are trained on."""
    import torch  # the settings were checked before this

    from gradgate.training.arguments import on_cpu

    if not on_cpu(config) and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)


def _refused(arm: Arm, config: RunConfig, seen: Preview) -> str | None:
    """Return why a method does not suit the model, or an adapter a language adapter; None if it does."""
    try:
        if arm.adapter is not None:
            config.model_copy(update={"adapter": arm.adapter}).check_adapter()
        arm.method.check(seen.layers.at(arm.method.traits.unit))
        seen.check_adapted([arm])
    except (UsageError, LayerMapError, RunError) as error:
        return str(error)
    return None


def _too_large(arm: Arm, config: RunConfig, task: TaskRecord, room: int) -> str | None:
    """Return why an arm cannot be trained here: its adapter does not fit the model, or its peak the device.

    None as well for a model whose memory cannot be estimated: the runs will tell.
    """
    try:
        peak = peak_bytes(arm, config, task)
    except (AdapterError, UsageError) as error:
        return str(error) if arm.adapter is not None else None
    except GradgateError:
        return None
    if peak <= room:
        return None
    return (
        f"it takes {peak / _GIB:.1f} GiB at its peak, but only {room / _GIB:.1f} GiB are free. A smaller "
        f"batch_size= or "
        f"max_length=, checkpointing=True or weights='bfloat16' takes less."
    )


def peak_bytes(arm: Arm, config: RunConfig, task: TaskRecord) -> int:
    """Return the estimated peak of an arm's training in bytes (:func:`gradgate.estimate_memory`).

    Raises:
        GradgateError: for a model or an adapter whose memory cannot be estimated.
    """
    from gradgate.memory.request import estimate_run

    own = config.model_copy(update=arm.settings)
    return estimate_run(own, task.kind, task.source).peak_bytes
