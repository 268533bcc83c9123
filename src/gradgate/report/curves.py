"""Learning curves: each method's score on dev at each evaluation, over its seeds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import isfinite

from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE
from gradgate.report.tables import Column, Entry, Table, spread_entry, spread_record


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
            if value is not None and isfinite(value):
                scores[record.step].append(value)
                if "epoch" in record.metrics:
                    epochs[record.step] = record.metrics["epoch"]
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
