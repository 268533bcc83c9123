"""Convert scores to the unit in which pages and records show them: points for shares, else the metric's own."""

from __future__ import annotations

from gradgate.tasks.metrics.names import is_bounded


def page_factor(metric: str) -> int:
    """Return what scores are multiplied by on a page: 100 for shares and correlations, 1 for losses and errors."""
    return 100 if is_bounded(metric) else 1


def scaled(value: float | None, factor: int) -> float | None:
    """Return a score in the unit of the page; None for None."""
    return None if value is None else value * factor


def scaled_interval(interval: tuple[float, float] | None, factor: int) -> list[float] | None:
    """Return an interval of scores in the unit of the page; None for None."""
    return None if interval is None else [end * factor for end in interval]
