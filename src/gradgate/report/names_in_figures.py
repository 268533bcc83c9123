"""Name the lines and marks of a figure: in a legend below a few of them, next to many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gradgate.report.drawing import legend_below
from gradgate.report.formats import shortened

MANY = 6
"""Names from which a legend takes longer to look up than labels."""

_WIDTH = 24  # characters of a line
_LINE, _PAIR = 0.15, 0.27  # inches from label to label, of one line or two
_AROUND = 0.9  # inches of a figure above and below its axes


def name_marks(figure: Figure) -> None:
    """Name everything that has a label, in a legend or, from six names in one system of axes on, next to it."""
    labelled = [(axes, *axes.get_legend_handles_labels()) for axes in figure.axes]
    labelled = [each for each in labelled if each[1]]
    axes, handles, names = labelled[0] if len(labelled) == 1 else (None, [], [])
    ends = [_end(handle) for handle in handles]
    if axes is None or len(names) < MANY or any(end is None for end in ends):
        legend = legend_below(figure)
        for handle in legend.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([40])
        return
    known = [end for end in ends if end is not None]
    labels = [folded(name) for name in names]
    gap = _PAIR if any("\n" in label for label in labels) else _LINE
    figure.set_figheight(max(figure.get_figheight(), len(labels) * gap + _AROUND))
    gap /= figure.get_figheight() - _AROUND
    _label(axes, [*zip(labels, known, map(_colour, handles), strict=True)], gap)


def folded(name: str) -> str:
    """Return a name in up to two lines, which break behind a comma, a colon or a space."""
    if len(name) <= _WIDTH:
        return shortened(name, _WIDTH)
    place = max(name.rfind(sign, 0, _WIDTH) for sign in ",: ") + 1 or _WIDTH
    return f"{shortened(name[:place], _WIDTH)}\n{shortened(name[place:], _WIDTH)}"


def _end(handle: Any) -> tuple[float, float] | None:
    """Return the right end of a line, or the place of a mark; None for anything else."""
    if isinstance(handle, Line2D):
        x, y = np.ma.filled(handle.get_xdata(), np.nan), np.ma.filled(handle.get_ydata(), np.nan)
        shown = np.isfinite(np.asarray(x, dtype=float)) & np.isfinite(np.asarray(y, dtype=float))
        return (float(x[shown][-1]), float(y[shown][-1])) if shown.any() else None
    marks = np.asarray(handle.get_offsets()) if isinstance(handle, PathCollection) else np.empty((0, 2))
    return (float(marks[0, 0]), float(marks[0, 1])) if len(marks) == 1 else None


def _colour(handle: Artist) -> Any:
    return handle.get_color() if isinstance(handle, Line2D) else handle.get_facecolor()[0]  # type: ignore[attr-defined]


def _label(axes: Axes, marks: Sequence[tuple[str, tuple[float, float], Any]], gap: float) -> None:
    """Write names to the right of the axes in the order of the marks' heights, each with a line to its mark."""
    axes.autoscale_view()
    places = [float(axes.transLimits.transform(axes.transScale.transform(end))[1]) for _, end, _ in marks]
    for (name, end, colour), place in zip(marks, spread(places, gap), strict=True):
        axes.annotate(
            name,
            end,
            xytext=(1.07, place),
            textcoords=axes.transAxes,
            fontsize=8.5,
            linespacing=1.0,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)},
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Return heights at least ``gap`` apart in the order of ``places``, near them, and between 0 and 1 if these fit.

    Neighbours that are too close become one group around their mean, until no group touches another.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    groups: list[tuple[float, list[int]]] = []  # the lowest height of a group, and its members
    for index in order:
        members = [index]
        low = _lowest([places[index]], gap)
        while groups and groups[-1][0] + len(groups[-1][1]) * gap > low:
            members = groups.pop()[1] + members
            low = _lowest([places[each] for each in members], gap)
        groups.append((low, members))
    found = [0.0] * len(places)
    for low, members in groups:
        for step, index in enumerate(members):
            found[index] = low + step * gap
    return found


def _lowest(places: Sequence[float], gap: float) -> float:
    """Return where a group around the mean of some places begins, moved to lie between 0 and 1."""
    size = (len(places) - 1) * gap
    return max(0.0, min(1.0 - size, sum(places) / len(places) - size / 2))
