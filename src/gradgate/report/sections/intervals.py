"""Draw intervals to a scale that very wide ones do not squeeze."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

# An interval from two seeds can be fifty times as wide as the values are apart; it must not squeeze them.
_REACH = 0.75


def limits_of(values: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a scale for all values and, as far as these do not squeeze the values, their intervals."""
    span = max(values) - min(values)
    if span <= 1e-9 * max(map(abs, values)):  # level but for rounding
        span = max(0.02 * abs(values[0]), 0.02)
    low = max(min([*values, *ends]), min(values) - _REACH * span)
    high = min(max([*values, *ends]), max(values) + _REACH * span)
    return low - 0.06 * (high - low) - 0.02 * span, high + 0.06 * (high - low) + 0.02 * span


def draw_interval(
    axes: Axes, ends: tuple[float, float], limits: tuple[float, float], height: float, colour: str
) -> None:
    """Draw an interval as a bar with a stroke at each end, or an arrow where it reaches beyond the picture."""
    shown = [max(ends[0], limits[0]), min(ends[1], limits[1])]
    axes.plot(shown, [height, height], color=colour, lw=2, solid_capstyle="butt", zorder=2)
    for end, limit, marker in ((ends[0], limits[0], "<"), (ends[1], limits[1], ">")):
        cut = (end < limit) if marker == "<" else (end > limit)
        axes.plot(limit if cut else end, height, marker if cut else "|", color=colour, ms=7, clip_on=False)
