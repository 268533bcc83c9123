"""Learning curves: each method's score on dev at each evaluation, over its seeds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gradgate.report.drawing import MUTED, Drawing, finish, legend_below, legend_label, look, styled, wrapped
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Table, spread_entry, spread_record
from gradgate.runs.records import comparable


@dataclass(frozen=True)
class CurvePoint:
    """The scores of the seeds that were evaluated after ``step`` steps.

    ``epoch``: passes over the training data until then; None where that was not noted.
    """

    step: int
    epoch: float | None
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """One method's evaluations on dev, in order."""

    method: MethodFindings
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class CurvesSection(Section):
    """The scores on dev while the runs were trained."""

    curves: list[Curve]

    @classmethod
    def find(cls, findings: Findings) -> CurvesSection | None:
        """None without an evaluation."""
        curves = find_curves(findings)
        return cls(findings, curves) if curves else None

    def tables(self) -> list[Table]:
        """One row an evaluation."""
        return [curve_table(self.findings, self.curves)]

    def drawings(self) -> list[Drawing]:
        """The curves."""
        return [draw_curves(self.findings, self.curves)]


def find_curves(findings: Findings) -> list[Curve]:
    """One curve for each method that has finite scores on dev."""
    curves = [Curve(method, _points(method, findings.format.metric)) for method in findings.scored]
    return [curve for curve in curves if curve.points]


def _points(method: MethodFindings, metric: str) -> tuple[CurvePoint, ...]:
    scores: dict[int, list[float]] = defaultdict(list)
    epochs: dict[int, float] = {}
    for cell in method.finished:
        for record in cell.history:
            value = record.metrics.get(metric)
            if comparable(value):
                scores[record.step].append(value)
                if comparable(epoch := record.metrics.get("epoch")):
                    epochs[record.step] = epoch
    return tuple(CurvePoint(step, epochs.get(step), tuple(values)) for step, values in sorted(scores.items()))


def curve_table(findings: Findings, curves: list[Curve]) -> Table:
    """One row an evaluation, one column a method."""
    metric = findings.format
    found = {(curve.method.name, point.step): point for curve in curves for point in curve.points}
    epochs = {point.step: point.epoch for point in found.values()}
    steps = sorted(epochs)
    titles = [curve.method.name for curve in curves]
    return Table(
        "curves",
        f"Learning curves: {metric.label}, dev",
        (
            Column("step", "Step", "optimizer steps done", numeric=False),
            Column("epoch", "Epoch", "passes over the training data"),
            *(Column(title, title, "mean ± standard deviation over seeds") for title in titles),
        ),
        tuple(
            (
                Entry(str(step), step),
                Entry(epoch_text(epochs[step]), epochs[step]),
                *(
                    spread_entry(list(point.scores), metric) if (point := found.get((title, step))) else Entry(NONE)
                    for title in titles
                ),
            )
            for step in steps
        ),
        tuple(
            {
                "method": curve.method.name,
                "step": point.step,
                "epoch": point.epoch,
                "metric": metric.metric,
                **spread_record(list(point.scores)),
            }
            for curve in curves
            for point in curve.points
        ),
    )


def epoch_text(epoch: float | None) -> str:
    """``2.5``, or a dash."""
    return NONE if epoch is None else f"{epoch:.3g}"


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
    label = legend_label(curve.method.name, 40)
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
