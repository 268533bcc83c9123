"""Interleave timings: rivals take turns, so that a slow moment of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Rivals = dict[str, Callable[[], object]]


def medians(rivals: Rivals, rounds: int) -> dict[str, float]:
    """Return the median seconds of each rival over ``rounds`` rounds, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds + 1):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def repeated(run: Callable[[], object], times: int) -> Callable[[], None]:
    """Combine several calls into one, for rivals whose single calls differ."""

    def several() -> None:
        for _ in range(times):
            run()

    return several


def rows(title: str, times: dict[str, float], base: str | None = None) -> list[str]:
    """Return a title, then milliseconds and the ratio to a rival, by default the first."""
    reference = times[base] if base else next(iter(times.values()))
    return [title, *(f"  {name:<34}{1e3 * each:9.2f} ms   {each / reference:7.3f}x" for name, each in times.items())]
