"""Draw relative quality against frozen layers."""

from __future__ import annotations

from matplotlib.axes import Axes

from gradgate.errors import counted
from gradgate.report import formats
from gradgate.report.drawing import COLOURS, INK, MUTED, PAPER, Drawing, finish, styled
from gradgate.report.sections.from_papers.freezing_curve import ENOUGH, FreezeCurve, FreezePoint

_COLOUR = COLOURS[1]
# More ticks than this run into each other at the width of the figures.
_TICKS = 13


def draw_freezing(curve: FreezeCurve) -> Drawing | None:
    """Draw frozen layers to the right, relative quality upwards; None if that is undefined."""
    points = [(point, point.quality) for point in curve.points if point.quality is not None]
    if not points:
        return None
    places = [point.frozen for point, _ in points]
    start = -1 if places[0] == 0 else 0  # of full, where no layer is frozen and no embedding either
    with styled(3.1) as figure:
        axes = figure.add_subplot()
        axes.axhline(1, color=MUTED, lw=0.8, zorder=0)
        axes.axhline(ENOUGH, color=MUTED, lw=1, ls=(0, (4, 3)), zorder=0)
        axes.plot([start, *places], [1, *(quality for _, quality in points)], color=_COLOUR, lw=1.6, zorder=2)
        for place, ratios, mean, colour, marker in (
            (start, curve.full_ratios, 1.0, INK, "D"),
            *((point.frozen, point.ratios, quality, _COLOUR, "o") for point, quality in points),
        ):
            axes.plot([place] * len(ratios), ratios, "_", color=colour, ms=9, mew=1.2, alpha=0.75, zorder=3)
            axes.plot(place, mean, marker, color=colour, mec=PAPER, ms=7 if len(points) <= _TICKS else 5, zorder=4)
        _label_axes(axes, curve, start, places)
        title = "Relative quality against frozen layers"
        return finish(figure, "freezing", title, _caption(curve), _text(curve), "freezing")


def _label_axes(axes: Axes, curve: FreezeCurve, start: int, places: list[int]) -> None:
    every = -(-len(places) // _TICKS)
    shown = places[::-1][::every][::-1]  # counted from the top, so that the head alone has its tick
    axes.set_xticks([start, *shown], [formats.shortened(curve.full.name, 12), *map(str, shown)])
    room = 0.05 * (places[-1] - start)
    axes.set_xlim(start - room, places[-1] + 3.4 * room)
    axes.text(1, ENOUGH, f"{ENOUGH}", transform=axes.get_yaxis_transform(), ha="right", va="bottom", color=MUTED)
    axes.set(xlabel=f"frozen layers of {curve.layers}, from the bottom", ylabel="relative quality")


def _caption(curve: FreezeCurve) -> str:
    higher = curve.study.record.task.metric_higher_is_better
    full = curve.full.name
    share = f"means over seeds divided by that of {full}" if higher else f"the mean of {full} divided by their means"
    if len(curve.study.units) > 1:
        share = f"{share}, the mean over {curve.study.results.split_unit}s of these ratios"
    return (
        f"Circles are {share}, short bars are single seeds; the diamond is {full}. The dashed line is at "
        f"{ENOUGH}. The embeddings are frozen with the layers; at {curve.layers}, only the head is trained."
    )


def _text(curve: FreezeCurve) -> str:
    parts = [f"{curve.full.name} 1"]
    parts += [f"{_frozen(point)} {_quality(point)}" for point in curve.points if point.quality is not None]
    return f"Relative quality with {'; '.join(parts)}."


def _frozen(point: FreezePoint) -> str:
    return f"{counted(point.frozen, 'layer')} frozen"


def _quality(point: FreezePoint) -> str:
    return f"{formats.quality(point.quality, point.spread)} ({counted(len(point.ratios), 'seed')})"
