"""The figures of the Fisher information: curves over steps, a map of the layers, and schedules with their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgba
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from gradgate.analysis.fisher import NAME, FisherRun, arms_of, correlation, mean_traces, order_of, smoothed_at
from gradgate.report.drawing import INK, MUTED, Drawing, finish, legend_label, style_of, styled, wrapped
from gradgate.report.formats import ScoreFormat, shortened
from gradgate.report.names_in_figures import name_marks

_WIDE_RANGE = 50
"""How many times the lowest mean the highest one is where a curve needs a logarithmic axis."""


def draw_curves(runs: Sequence[FisherRun], order: Sequence[str], sentence: str) -> Drawing:
    """Draw the normalised trace over steps, a line for each arm (FUN, Fig. 3)."""
    arms = {arm: smoothed_at(own) for arm, own in arms_of(runs).items()}
    with styled(3.0 + 0.19 * len(arms)) as figure:
        axes = figure.add_subplot()
        means = [float(np.mean(found)) for values in arms.values() for found in values.values()]
        if means and min(means) > 0 and max(means) > _WIDE_RANGE * min(means):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))  # the usual one writes formulas
            axes.yaxis.set_minor_formatter(NullFormatter())
        for arm, values in arms.items():
            _draw_arm(axes, arm, values, order.index(arm))
        axes.set(xlabel="optimizer steps", ylabel="tr(F) per open layer")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        windows = sorted({run.window for run in runs})
        window = "1 measurement, so not smoothed" if windows == [1] else f"{windows[-1]} measurements"
        caption = (
            f"{sentence} The trace of the Fisher information, averaged over the open layers (Liu et al. 2023, "
            f"Fig. 3); moving average over {window}. Lines are means over the seeds, bands ± one standard "
            "deviation."
        )
        return finish(figure, NAME, "Fisher information during training", caption, sentence, NAME)


def _draw_arm(axes: Axes, arm: str, values: dict[int, list[float]], place: int) -> None:
    style, steps = style_of(place), np.array(list(values))
    means = np.array([np.mean(found) for found in values.values()])
    spread = np.array([np.std(found, ddof=1) if len(found) > 1 else 0.0 for found in values.values()])
    marker = style.marker if len(steps) <= 25 else ""
    label = legend_label(arm, 40)
    axes.plot(steps, means, color=style.colour, ls=style.dash, lw=1.6, marker=marker, ms=3.5, label=label)
    low = means - spread if axes.get_yscale() == "linear" else np.maximum(means - spread, means / 10)
    axes.fill_between(steps, low, means + spread, color=style.colour, alpha=0.14, lw=0)


# Transparent to opaque instead of white to blue: small values then fade into light and dark pages alike.
_BLUE = "#0072b2"
_SHADES = LinearSegmentedColormap.from_list("trace", [to_rgba(_BLUE, 0.05), to_rgba(_BLUE, 1.0)])
_DECADES = 3
_TITLE = 0.34  # inches above a band
_LABELS_PER_INCH = 5.4


def draw_layers(runs: Sequence[FisherRun]) -> Drawing:
    """Draw tr(F) of each layer over steps, a band for each arm, and the layer that FUN would open."""
    arms = arms_of(runs)
    heights = {arm: min(1.6, max(0.75, 0.12 * len(own[0].layers))) for arm, own in arms.items()}
    largest = max(float(np.max(mean_traces(own)[1])) for own in arms.values()) or 1.0
    with styled(0.95 + sum(heights.values()) + _TITLE * len(arms)) as figure:
        axes, top = figure.add_subplot(), 0.0
        ticks: dict[float, str] = {}
        for arm, own in arms.items():
            top -= _TITLE + heights[arm]
            ticks |= _draw_band(axes, arm, own, top, heights[arm], largest)
        last = max(run.steps[-1] for run in runs)
        axes.set(xlabel="optimizer steps", xlim=(-0.01 * last, 1.01 * last), ylim=(top, 0))
        axes.set_yticks(list(ticks), list(ticks.values()), fontsize=9)
        axes.tick_params(axis="y", length=0, pad=2)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        dot = Line2D([], [], color=INK, marker="o", ms=4, lw=0, label="closed; FUN would open it next")
        figure.legend(handles=[dot], loc="outside lower left")
        caption = (
            f"The stronger the colour, the larger tr(F), on a logarithmic scale from {largest:.3g} down to a "
            f"{10**_DECADES}th of it. All layers are shown, closed ones too, from bottom to top, as means over "
            "seeds. The dot marks the closed layer with the largest trace."
        )
        return finish(
            figure, f"{NAME}-layers", "Fisher information of each layer", caption, _layers_text(arms), f"{NAME}-layers"
        )


def _draw_band(
    axes: Axes, arm: str, runs: Sequence[FisherRun], bottom: float, height: float, largest: float
) -> dict[float, str]:
    """Draw one arm and its title; return the place of each tick and its label."""
    steps, traces = mean_traces(runs)
    count = len(traces)
    shown = LogNorm(largest / 10**_DECADES, largest, clip=True)(np.maximum(traces, largest / 10**_DECADES))
    edges = _edges(steps)
    rows = np.linspace(bottom, bottom + height, count + 1)
    axes.pcolormesh(edges, rows, np.asarray(shown), cmap=_SHADES, vmin=0, vmax=1, lw=0, rasterized=False)
    axes.text(edges[0], bottom + height + 0.05, shortened(arm, 38), ha="left", va="bottom")
    opened = {record.step: record.open for record in runs[0].records}
    for step, column in zip(steps, traces.T, strict=True):
        closed = [place for place, name in enumerate(runs[0].layers) if name not in opened[step]]
        if closed:
            chosen = max(closed, key=lambda place: (column[place], place))
            axes.plot(step, bottom + (chosen + 0.5) / count * height, "o", color=INK, ms=min(4, 40 / len(steps)))
    labels = sorted({round(place) for place in np.linspace(0, count - 1, min(count, int(height * _LABELS_PER_INCH)))})
    return {bottom + (row + 0.5) / count * height: shortened(runs[0].layers[row], 18) for row in labels}


def _edges(steps: Sequence[int]) -> NDArray[np.float64]:
    """Return the places between measurements; the first and last reach to their own steps."""
    places = np.array(steps, dtype=float)
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    between = (places[1:] + places[:-1]) / 2
    return np.concatenate([places[:1], between, places[-1:]])


def _layers_text(arms: dict[str, list[FisherRun]]) -> str:
    parts = []
    for arm, own in arms.items():
        steps, traces = mean_traces(own)
        names = own[0].layers
        ends = [(steps[at], names[int(np.argmax(traces[:, at]))], float(np.max(traces[:, at]))) for at in (0, -1)]
        parts.append(
            f"{arm}: the largest trace is that of {ends[0][1]} at step {ends[0][0]} ({ends[0][2]:.3g}) and of "
            f"{ends[1][1]} at step {ends[1][0]} ({ends[1][2]:.3g}); FUN's last order is "
            f"{', '.join(order_of(own[0].records[-1]))} (seed {own[0].seed})"
        )
    return f"{'. '.join(parts)}."


def draw_schedules(runs: Sequence[FisherRun], order: Sequence[str], metric: ScoreFormat, sentence: str) -> Drawing:
    """Draw peak and area of each schedule's curve, scaled to 1, against its score (FUN, Fig. 4)."""
    schedules = arms_of([run for run in runs if run.is_schedule and run.score is not None])
    with styled(4.8 + 0.19 * len(schedules)) as figure:
        panels = figure.subplots(2, sharey=True)
        for axes, name in zip(panels, ("peak", "area"), strict=True):
            points = {arm: [(getattr(r, name), r.score) for r in own] for arm, own in schedules.items()}
            known = {arm: np.array([p for p in own if None not in p], dtype=float) for arm, own in points.items()}
            largest = max((float(own[:, 0].max()) for own in known.values() if len(own)), default=1.0) or 1.0
            for arm, own in known.items():
                style = style_of(order.index(arm))
                label = legend_label(arm, 40) if axes is panels[0] else None
                xs, ys = own[:, 0] / largest, metric.factor * own[:, 1]
                axes.plot(xs, ys, style.marker, color=style.colour, ms=3, alpha=0.45)
                axes.plot(xs.mean(), ys.mean(), style.marker, color=style.colour, ms=7, label=label)
            axes.set(xlabel=f"{name} of tr(F) per open layer, scaled to 1", ylabel=wrapped(metric.label))
            axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        assert correlation(runs, lambda run: run.peak) is not None, "drawn only with a correlation"
        caption = (
            f"{sentence} Large marks are means over the seeds, small ones the seeds (after Liu et al. 2023, Fig. 4)."
        )
        return finish(
            figure,
            f"{NAME}-schedules",
            "Schedules: Fisher information and score",
            caption,
            sentence,
            f"{NAME}-schedules",
        )
