"""Summarize the costs of an arm: time, memory, and the weights that it trains and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeVar

from gradgate.runs.scores import Cost, FileSizes

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class CostSummary:
    """Costs of one arm over its finished seeds; all None without one.

    Attributes:
        seconds_per_step: median over the seeds.
        seconds_total: mean over the seeds.
        trainable_share: mean over the seeds.
        parameters_trained: the largest of the seeds.
        peak_memory_bytes: the largest of the seeds; None if it was not measured.
        bytes_stored: the largest of the seeds; None if it was not counted.
        files: of the seed that stores most; None if no weights were stored.
    """

    seconds_per_step: float | None = None
    seconds_total: float | None = None
    trainable_share: float | None = None
    parameters_trained: int | None = None
    peak_memory_bytes: int | None = None
    bytes_stored: int | None = None
    files: FileSizes | None = None


def summarize_cost(costs: list[Cost]) -> CostSummary:
    """Summarize the costs of an arm's finished runs."""
    if not costs:
        return CostSummary()
    return CostSummary(
        seconds_per_step=_over(median, [cost.seconds_per_step for cost in costs]),
        seconds_total=_over(fmean, [cost.seconds_total for cost in costs]),
        trainable_share=_over(fmean, [cost.trainable_share for cost in costs]),
        parameters_trained=_over(max, [cost.parameters_trained for cost in costs]),
        peak_memory_bytes=_over(max, [cost.peak_memory_bytes for cost in costs]),
        bytes_stored=_over(max, [cost.bytes_stored for cost in costs]),
        files=max((cost.files for cost in costs if cost.files), key=lambda files: files.stored, default=None),
    )


def _over(summary: Callable[[list[Number]], Number], values: Sequence[Number | None]) -> Number | None:
    """Return the summary of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return summary(known) if known else None


def ratio(value: float | None, reference: float | None) -> float | None:
    """Return a cost over the reference's; None if either is unknown or the reference's is 0."""
    return value / reference if value is not None and reference else None
