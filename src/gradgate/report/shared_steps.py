"""Line up evaluations of runs whose epochs differ in length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median_low

from gradgate.runs.history import DevRecord
from gradgate.runs.scores import comparable


def shared_steps(records: Iterable[DevRecord]) -> Callable[[DevRecord], int]:
    """Return the step at which an evaluation is drawn: its own, or one for all evaluations after the same epoch.

    Seeds that draw other training texts can have epochs of other lengths, as a long text becomes several windows. Runs
    that are evaluated after each epoch then share epochs, not steps: each epoch has the median of their steps.

    Args:
        records: of all runs that are compared.
    """
    steps: dict[float, list[int]] = defaultdict(list)
    own = set()
    for record in records:
        epoch = _epoch(record)
        if epoch is None:
            return _own_step
        own.add(record.step)
        steps[epoch].append(record.step)
    if len(steps) >= len(own):
        return _own_step
    shared = {epoch: median_low(found) for epoch, found in steps.items()}

    def of_epoch(record: DevRecord) -> int:
        epoch = _epoch(record)
        return record.step if epoch is None else shared[epoch]

    return of_epoch


def _own_step(record: DevRecord) -> int:
    return record.step


def _epoch(record: DevRecord) -> float | None:
    epoch = record.metrics.get("epoch")
    return round(epoch, 6) if comparable(epoch) else None
