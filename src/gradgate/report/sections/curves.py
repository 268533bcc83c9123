"""Show learning curves: each method's score on dev at each evaluation, over its seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gradgate.report.drawing import MUTED, Drawing, finish, legend_label, style_of, styled, wrapped
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import Section
from gradgate.report.shared_steps import shared_steps
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, spread_entry, spread_fields, step_column
from gradgate.runs.scores import comparable
from gradgate.statistics import Summary, summarize


@dataclass(frozen=True)
class CurvePoint:
    """The scores of the seeds that were evaluated at the same time.

    Attributes:
        step: optimizer steps until then, the median over seeds if their epochs differ in length.
        epoch: passes over the training data until then; None if that was not noted.
    """

    step: int
    epoch: float | None
    scores: Summary


@dataclass(frozen=True)
class Curve:
    """One method's evaluations on dev, in order."""

    arm: ArmSummary
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class CurvesSection(Section):
    """The scores on dev while the runs were trained."""

    curves: list[Curve]

    @classmethod
    def find(cls, study: StudySummary) -> CurvesSection | None:
        """Return None without an evaluation."""
        curves = find_curves(study)
        return cls(study, curves) if curves else None

    def tables(self) -> list[Table]:
        """Return one row per evaluation."""
        return [curve_table(self.study, self.curves)]

    def drawings(self) -> list[Drawing]:
        """Draw the curves."""
        return [draw_curves(self.study, self.curves)]


def find_curves(study: StudySummary) -> list[Curve]:
    """Return one curve for each arm that has finite scores on dev."""
    curves = [Curve(arm, _points(arm, study.format.metric)) for arm in study.scored]
    return [curve for curve in curves if curve.points]


def _points(arm: ArmSummary, metric: str) -> tuple[CurvePoint, ...]:
    step_of = shared_steps(record for cell in arm.finished for record in cell.history)
    scores: dict[int, list[float]] = defaultdict(list)
    epochs: dict[int, float] = {}
    for cell in arm.finished:
        for record in cell.history:
            value = record.metrics.get(metric)
            if comparable(value):
                scores[step_of(record)].append(value)
                if record.epoch is not None:
                    epochs[step_of(record)] = record.epoch
    return tuple(CurvePoint(step, epochs.get(step), summarize(values)) for step, values in sorted(scores.items()))


def curve_table(study: StudySummary, curves: list[Curve]) -> Table:
    """Return one row per evaluation, one column per method."""
    metric = study.format
    points = [(curve.arm.name, point) for curve in curves for point in curve.points]
    epochs = _epochs_of_steps(point for _, point in points)
    columns = (
        step_column(),
        Column(
            "epoch",
            "Epoch",
            "passes over the training data",
            show=lambda step: Entry(epoch_text(epochs[step]), epochs[step]),
        ),
        *(_arm_column(curve, metric) for curve in curves),
    )
    fields: tuple[Column[tuple[str, CurvePoint]], ...] = (
        Column("method", raw=lambda row: row[0]),
        Column("step", raw=lambda row: row[1].step),
        Column("epoch", raw=lambda row: row[1].epoch),
        Column("metric", raw=lambda row: metric.metric),
        *spread_fields(lambda row: row[1].scores),
    )
    title = f"Learning curves: {metric.label}, dev"
    return Table.of("curves", title, sorted(epochs), columns, records=records_of(points, fields))


def _epochs_of_steps(points: Iterable[CurvePoint]) -> dict[int, float | None]:
    """Return the epoch of each step; None if arms of other batch sizes are in another one."""
    found: dict[int, set[float | None]] = defaultdict(set)
    for point in points:
        found[point.step].add(None if point.epoch is None else round(point.epoch, 6))
    return {step: epochs.pop() if len(epochs) == 1 else None for step, epochs in found.items()}


def _arm_column(curve: Curve, metric: ScoreFormat) -> Column[int]:
    at = {point.step: point.scores for point in curve.points}
    name = curve.arm.name
    return Column(
        name, name, "mean ± standard deviation over seeds", show=lambda step: spread_entry(at.get(step), metric)
    )


def epoch_text(epoch: float | None) -> str:
    """Return ``2.5``, or a dash."""
    return NONE if epoch is None else f"{epoch:.3g}"


_SAME_PACE = 1.01
_CAPTION = "Lines are means over the seeds, bands ± one standard deviation."


def draw_curves(study: StudySummary, curves: list[Curve]) -> Drawing:
    """Draw the dev score over epochs (over steps if epochs were not noted), with a band of one standard deviation.

    Args:
        curves: at least one.
    """
    metric = study.format
    by_epoch = all(point.epoch and point.step for curve in curves for point in curve.points)
    pace = _steps_per_epoch(curves) if by_epoch else None
    with styled((2.9 if pace is None else 3.3) + 0.19 * len(curves)) as figure:
        axes = figure.add_subplot()
        for curve in curves:
            _draw_curve(axes, study, curve, [point.epoch if by_epoch else point.step for point in curve.points])
        axes.set(xlabel="epochs" if by_epoch else "optimizer steps", ylabel=wrapped(f"{metric.label}, dev"))
        axes.xaxis.set_major_locator(
            MaxNLocator("auto", integer=not by_epoch or axes.get_xlim()[1] > 3, steps=[1, 2, 5, 10])
        )
        if pace is not None:
            top = axes.secondary_xaxis("top", functions=(partial(np.multiply, pace), partial(np.multiply, 1 / pace)))
            top.set_xlabel("optimizer steps")
            top.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        return finish(figure, "curves", "Learning curves on dev", _CAPTION, _text(study, curves), "curves")


def _steps_per_epoch(curves: list[Curve]) -> float | None:
    """Return the optimizer steps per epoch; None if arms differ in them, as those of other batch sizes."""
    last = [curve.points[-1] for curve in curves]
    paces = [point.step / point.epoch for point in sorted(last, key=lambda point: -point.step) if point.epoch]
    return paces[0] if max(paces) <= _SAME_PACE * min(paces) else None


def _draw_curve(axes: Axes, study: StudySummary, curve: Curve, places: Sequence[float | None]) -> None:
    style, factor = style_of(study.place(curve.arm)), study.format.factor
    at = np.array(places, dtype=float)
    means = factor * np.array([point.scores.mean for point in curve.points], dtype=float)
    spread = factor * np.array([point.scores.sd or 0.0 for point in curve.points])
    marker = style.marker if len(at) <= 25 else ""
    label = legend_label(curve.arm.name, 40)
    axes.plot(at, means, color=style.colour, ls=style.dash, lw=1.6, marker=marker, ms=3.5, label=label)
    axes.fill_between(at, means - spread, means + spread, color=style.colour, alpha=0.14, lw=0)


def _text(study: StudySummary, curves: list[Curve]) -> str:
    sign = 1 if study.record.task.metric_higher_is_better else -1
    value = study.format.value
    parts = []
    for curve in curves:
        stations = [(point, point.scores.mean or 0.0) for point in curve.points]
        (first, start), (last, end) = stations[0], stations[-1]
        top, peak = max(stations, key=lambda station: sign * station[1])
        epoch = "" if last.epoch is None else f" (epoch {epoch_text(last.epoch)})"
        parts.append(
            f"{curve.arm.name} goes from {value(start)} at step {first.step} to {value(end)} at step {last.step}"
            f"{epoch}, best {value(peak)} at step {top.step}"
        )
    return f"{'; '.join(parts)}."
