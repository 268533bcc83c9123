"""Time rivals on a device: CUDA events around each, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from benchmarks.gpu.bench import Bench

Rivals = dict[str, Callable[[], object]]


def medians(bench: Bench, rivals: Rivals, rounds: int | None = None) -> dict[str, float]:
    """Return the median seconds of each rival over ``rounds``, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range((rounds or bench.rounds) + 1):
        for name, run in rivals.items():
            spent = seconds(bench, run)
            if number:
                times[name].append(spent)
    return {name: median(values) for name, values in times.items()}


def seconds(bench: Bench, run: Callable[[], object]) -> float:
    """Return the seconds of one call, on the device from its first to its last work, with gaps where it waited."""
    if not bench.on_cuda:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3
