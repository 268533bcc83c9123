"""Interleaved timing: rivals take turns, so that a slow moment of the machine meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def medians(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each rival over ``rounds`` rounds, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds + 1):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}
