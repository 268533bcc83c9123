"""Draw the loss around the weights that each run found."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from gradgate.analysis.landscape import NAME, PLANE, RISE, LandscapeRow, caption, flatness_of, lines, width_text
from gradgate.report import formats
from gradgate.report.drawing import INK, MUTED, Drawing, finish, legend_label, style_of, styled
from gradgate.report.formats import NONE
from gradgate.report.names_in_figures import name_marks
from gradgate.runs.records import DEV, TRAIN

Losses = NDArray[np.float64]
Plane = tuple[Losses, Losses]
"""The coordinates of a side, and the losses: the second direction upwards, the first to the right."""

SPLITS = (TRAIN, DEV)
_LEVELS = 9  # colours of the plane


def mean_at(rows: Sequence[LandscapeRow], arm: str, split: str, place: float) -> float | None:
    """Return the mean loss of an arm at a place on its line, over the runs; None without one."""
    found = [dict(points).get(place) for points in lines(rows, arm, split).values()]
    known = [loss for loss in found if loss is not None]
    return float(np.mean(known)) if known else None


def draw_landscape(rows: Sequence[LandscapeRow], order: Sequence[str]) -> list[Drawing]:
    """Draw the losses on the lines of all arms, and on the plane of each, if these were measured.

    Args:
        order: of the arms; their places decide the colours.
    """
    arms = [arm for arm in order if any(row.arm == arm for row in rows)]
    drawings = []
    if any(lines(rows, arm, DEV) for arm in arms):
        drawings.append(_draw_lines(rows, arms, order))
    planes = {arm: plane for arm in arms if (plane := _plane(rows, arm)) is not None}
    if planes:
        drawings.append(_draw_planes(planes, max(row.rows for row in rows)))
    return drawings


def _draw_lines(rows: Sequence[LandscapeRow], arms: Sequence[str], order: Sequence[str]) -> Drawing:
    with styled(4.6 + 0.19 * len(arms)) as figure:
        panels = figure.subplots(2, sharex=True)
        for axes, split in zip(panels, SPLITS, strict=True):
            for arm in arms:
                _draw_line(axes, rows, arm, split, order.index(arm), label=axes is panels[0])
            for place in (0, 1):
                axes.axvline(place, color=MUTED, lw=0.8, zorder=0)
            axes.grid(color=MUTED, alpha=0.2, lw=0.6)
            axes.set_ylabel(f"loss, {split}")
        panels[1].set_xlabel("position on the line: 0 before training, 1 after")
        name_marks(figure)
        title = "Loss between the weights before and after training"
        return finish(figure, f"{NAME}-line", title, _line_caption(rows), _line_text(rows, arms), NAME)


def _draw_line(axes: Axes, rows: Sequence[LandscapeRow], arm: str, split: str, place: int, label: bool) -> None:
    style = style_of(place)
    by_x: dict[float, list[float]] = {}
    for points in lines(rows, arm, split).values():
        for x, loss in points:
            by_x.setdefault(x, []).append(np.nan if loss is None else loss)
    places = np.array(sorted(by_x))
    means = np.array([np.mean(by_x[x]) for x in places])
    spread = np.array([np.std(by_x[x], ddof=1) if len(by_x[x]) > 1 else 0.0 for x in places])
    name = legend_label(arm, 40) if label else None
    every = max(1, len(places) // 10)
    axes.plot(
        places,
        means,
        color=style.colour,
        ls=style.dash,
        marker=style.marker,
        markevery=every,
        ms=3.5,
        lw=1.6,
        label=name,
    )
    axes.fill_between(places, means - spread, means + spread, color=style.colour, alpha=0.14, lw=0)


def _line_caption(rows: Sequence[LandscapeRow]) -> str:
    count = max(row.rows for row in rows)
    return (
        f"{caption(rows)} Flatness is the length of the interval around the tuned weights in which the dev loss "
        f"is at most {RISE} above theirs, on the line of He et al. 2021, Fig. 6; a length of 1 is the distance "
        "that training moved the weights. Only trained weights change along the line. At 0, the head and adapters "
        f"have the random weights that training began with. Losses are means over up to {count} rows of each split; "
        "lines are means over the seeds, bands ± one standard deviation."
    )


def _line_text(rows: Sequence[LandscapeRow], arms: Sequence[str]) -> str:
    parts = []
    for arm in arms:
        for split in SPLITS:
            before, tuned = (mean_at(rows, arm, split, x) for x in (0.0, 1.0))
            parts.append(f"{arm}: {split} loss {_number(before)} before, {_number(tuned)} tuned")
        if found := flatness_of(rows, arm):
            parts.append(f"{arm}: flatness {width_text(found)}")
    return f"{'; '.join(parts)}."


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _draw_planes(planes: dict[str, Plane], rows: int) -> Drawing:
    levels = _levels(planes)
    columns = min(2, len(planes))
    height = -(-len(planes) // columns)
    with styled(0.9 + (2.1 if columns == 2 else 3.4) * height) as figure:
        panels = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True)
        for axes, (arm, plane) in zip(panels.flat, planes.items(), strict=False):
            side, losses = plane
            shown = axes.contourf(side, side, np.ma.masked_invalid(losses), levels, cmap="Blues", extend="max")
            axes.contour(side, side, np.ma.masked_invalid(losses), levels, colors=MUTED, linewidths=0.5)
            axes.plot(0, 0, "+", color=INK, ms=8)
            axes.set_title("\n".join(wrap(formats.shortened(arm, 50), 26)), fontsize=9)
            axes.set_aspect("equal")
        for axes in panels.flat[len(planes) :]:
            axes.set_visible(False)
        bar = figure.colorbar(shown, ax=panels, location="bottom", shrink=0.9, aspect=40, format="%.3g")
        bar.set_label("loss, dev")
        title = "Dev loss on a random plane around the tuned weights"
        return finish(figure, f"{NAME}-plane", title, _plane_caption(rows), _plane_text(planes), NAME)


def _levels(planes: dict[str, Plane]) -> Losses:
    """Return where colours change: the same for all panels, and closer together where most losses are."""
    finite = np.concatenate([losses[np.isfinite(losses)] for _, losses in planes.values()])
    low, high = float(finite.min()), float(np.quantile(finite, 0.95))
    return np.linspace(low, max(high, low + 1e-6), _LEVELS)


def _plane(rows: Sequence[LandscapeRow], arm: str) -> Plane | None:
    """Return the coordinates of a side, and the mean dev losses over the seeds; None if points are missing."""
    found: dict[tuple[float, float], list[float]] = {}
    for row in rows:
        if (row.arm, row.where, row.split) == (arm, PLANE, DEV) and row.y is not None:
            found.setdefault((row.x, row.y), []).append(np.nan if row.loss is None else row.loss)
    side = sorted({x for x, _ in found})
    if len(side) < 2 or len(found) < len(side) ** 2:
        return None
    losses = np.array([[np.mean(found[x, y]) for x in side] for y in side])
    return (np.array(side), losses) if np.isfinite(losses).any() else None


def _plane_caption(rows: int) -> str:
    return (
        "The cross marks the tuned weights; the stronger the colour, the higher the loss, on one scale for all. "
        "The axes are two random directions, scaled per filter so that a length of 1 equals the norm of the "
        "trained filter (Li et al. 2018, section 4); biases, norm layers and untrained weights stay fixed. Means "
        f"over up to {rows} rows of dev, for the first seed unless more were requested."
    )


def _plane_text(planes: dict[str, Plane]) -> str:
    parts = []
    for arm, (side, losses) in planes.items():
        middle = len(side) // 2
        edge = np.concatenate([losses[0], losses[-1], losses[1:-1, 0], losses[1:-1, -1]])
        known = edge[np.isfinite(edge)]
        rim = f"{known.min():.3f} to {known.max():.3f} at the edge" if len(known) else "not a number at the edge"
        parts.append(f"{arm}: dev loss {losses[middle, middle]:.3f} at the tuned weights, {rim}")
    return f"{'; '.join(parts)}."
