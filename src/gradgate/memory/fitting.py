"""Find a batch that fits a device, if the requested one fits none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradgate.memory.estimate import Estimator
from gradgate.memory.usage import DEVICES, MemoryEstimate
from gradgate.methods.base import Method

_LEAST_LENGTH = 128


def advice(
    estimator: Estimator, method: Method, estimate: MemoryEstimate, devices: Sequence[float] = DEVICES
) -> str | None:
    """Return a batch that fits, as ``"batch 4 at 2,048 fits 24 GiB"``; None if the requested one does.

    First the batch size is halved until it fits the largest device, then the length.

    Args:
        estimator: of the model.
        method: of the estimate.
        estimate: with the requested batch.
        devices: GiB of each, in ascending order.
    """
    if estimate.fits(devices[-1]):
        return None
    work = estimator.setup.workload
    while work.batch_size > 1 or work.max_length > _LEAST_LENGTH:
        if work.batch_size > 1:
            work = replace(work, batch_size=work.batch_size // 2)
        else:
            work = replace(work, max_length=max(_LEAST_LENGTH, work.max_length // 2))
        smaller = estimator.with_workload(method, work)
        device = next((gib for gib in devices if smaller.fits(gib)), None)
        if device is not None:
            return f"batch {work.batch_size} at {work.max_length:,} fits {device:g} GiB"
    return (
        f"no batch size fits {devices[-1]:g} GiB: train fewer weights, shard over processes (shards=), or use "
        f"weights in fewer bits and an optimizer with smaller states"
    )
