"""Learning curves on dev."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gradgate.report.curves import Curve, epoch_text
from gradgate.report.figures.style import MUTED, Drawing, finish, legend_below, look, styled, wrapped
from gradgate.report.findings import Findings
from gradgate.report.formats import shortened

_CAPTION = "Lines are means over the seeds, bands ± one standard deviation."


def draw_curves(findings: Findings, curves: list[Curve]) -> Drawing:
    """The dev score over epochs (over steps where epochs were not noted), with a band of one standard deviation.

    Args:
        curves: at least one.
    """
    metric = findings.format
    pace = _steps_per_epoch(curves)
    with styled((2.9 if pace is None else 3.3) + 0.19 * len(curves)) as figure:
        axes = figure.add_subplot()
        for curve in curves:
            _draw_curve(axes, findings, curve, pace or 1.0)
        axes.set(xlabel="optimizer steps" if pace is None else "epochs", ylabel=wrapped(f"{metric.label}, dev"))
        axes.xaxis.set_major_locator(
            MaxNLocator("auto", integer=pace is None or axes.get_xlim()[1] > 3, steps=[1, 2, 5, 10])
        )
        if pace is not None:
            top = axes.secondary_xaxis("top", functions=(partial(np.multiply, pace), partial(np.multiply, 1 / pace)))
            top.set_xlabel("optimizer steps")
            top.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        legend_below(figure)
        return finish(figure, "curves", "Learning curves on dev", _CAPTION, _text(findings, curves), "curves")


def _steps_per_epoch(curves: list[Curve]) -> float | None:
    """The same for all runs of a study, which share their data and batches; None where it is not known."""
    points = [point for curve in curves for point in curve.points]
    if any(not point.epoch or not point.step for point in points):
        return None
    last = max(points, key=lambda point: point.step)
    return last.step / last.epoch if last.epoch else None


def _draw_curve(axes: Axes, findings: Findings, curve: Curve, pace: float) -> None:
    style, factor = look(findings.methods.index(curve.method)), findings.format.factor
    places = np.array([point.step / pace for point in curve.points])
    means = factor * np.array([np.mean(point.scores) for point in curve.points])
    sds = [np.std(point.scores, ddof=1) if len(point.scores) > 1 else 0.0 for point in curve.points]
    spread = factor * np.array(sds)
    marker = style.marker if len(places) <= 25 else ""
    label = shortened(curve.method.name, 40)
    axes.plot(places, means, color=style.colour, ls=style.dash, lw=1.6, marker=marker, ms=3.5, label=label)
    axes.fill_between(places, means - spread, means + spread, color=style.colour, alpha=0.14, lw=0)


def _text(findings: Findings, curves: list[Curve]) -> str:
    sign = 1 if findings.results.study.task.metric_higher_is_better else -1
    value = findings.format.value
    parts = []
    for curve in curves:
        stations = [(point, float(np.mean(point.scores))) for point in curve.points]
        (first, start), (last, end) = stations[0], stations[-1]
        top, peak = max(stations, key=lambda station: sign * station[1])
        epoch = "" if last.epoch is None else f" (epoch {epoch_text(last.epoch)})"
        parts.append(
            f"{curve.method.name} goes from {value(start)} at step {first.step} to {value(end)} at step {last.step}"
            f"{epoch}, best {value(peak)} at step {top.step}"
        )
    return f"{'; '.join(parts)}."
