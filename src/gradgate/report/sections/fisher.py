"""The Fisher information of layers through training, where runs have tracked it (FUN, Fig. 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gradgate.analysis.fisher import (
    NAME,
    TrackedGroup,
    TrackedRun,
    arms_of,
    correlation,
    mean_traces,
    order_of,
    smoothed_at,
    top_down,
    tracked_runs,
)
from gradgate.errors import RunError
from gradgate.report import formats
from gradgate.report.drawing import Drawing
from gradgate.report.findings import Findings, find
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.sections.fisher_figures import draw_curves, draw_layers, draw_schedules
from gradgate.report.table import Column, Entry, Raw, Table
from gradgate.statistics import summarize

_MOST_ROWS = 21
"""Steps that a table shows; its CSV file has them all."""
Quantity = Callable[[TrackedRun], float | None]
QUANTITIES: dict[str, tuple[str, Quantity]] = {
    "peak": ("Peak", lambda run: run.peak),
    "area": ("Area", lambda run: run.area),
    "top_down": ("Top-down", lambda run: top_down(run.records[-1])),
}


@dataclass(frozen=True)
class FisherSection(Section):
    """What the runs have tracked with ``--track fisher``."""

    runs: list[TrackedRun]
    problem: str = ""

    @classmethod
    def find(cls, findings: Findings) -> FisherSection | None:
        """None for a study that has tracked nothing."""
        try:
            runs = tracked_runs(findings.results)
        except RunError as error:
            return cls(findings, [], str(error))
        return cls(findings, runs) if runs else None

    def tables(self) -> list[Table]:
        """The curves, the layers, the order of FUN, and the schedules with their scores."""
        return fisher_tables(self.runs, self.findings.format, self.findings.split_label) if self.runs else []

    def drawings(self) -> list[Drawing]:
        """The curves; the layers; and where schedules can be correlated with their scores, these."""
        return fisher_drawings(self.runs, self.findings.results.study.arm_names, self.findings.format)

    def cautions(self) -> list[str]:
        """Why what was tracked cannot be read."""
        return [self.problem] if self.problem else []

    def notes(self) -> list[str]:
        """How the numbers are made."""
        return [_HOW] if self.runs else []


_HOW = (
    "Fisher information: tr(F) is the mean over examples of the squared gradient of log p(y|x), y drawn from the model "
    "(Liu et al. 2023, Eq. 1), summed over a layer's weights that may learn, without dropout, on the same training "
    "batches at each measurement. Normalised, it is the mean over the layers that are open at the step; the moving "
    "average is over a tenth of a run's measurements, 10 at most, centred."
)


def shown_as(group: TrackedGroup) -> tuple[Sequence[str], ScoreFormat | None, str]:
    """The places of the arms of a group, and the metric and split of their scores; none outside of a study."""
    if group.results is None:
        return list(arms_of(group.runs)), None, ""
    findings = find(group.results)
    return group.results.study.arm_names, findings.format, findings.split_label


def fisher_tables(runs: Sequence[TrackedRun], metric: ScoreFormat | None = None, split: str = "") -> list[Table]:
    """All tables of tracked runs; that of the schedules only with scores."""
    tables = [curve_table(runs), layer_table(runs), order_table(runs)]
    return [
        *tables,
        *([schedule_table(runs, metric, split)] if metric and any(run.is_schedule for run in runs) else []),
    ]


def fisher_drawings(
    runs: Sequence[TrackedRun], order: Sequence[str], metric: ScoreFormat | None = None
) -> list[Drawing]:
    """All figures of tracked runs; the places of the arms in ``order`` decide the colours."""
    if not runs:
        return []
    drawings = [draw_curves(runs, order, seen(runs)), draw_layers(runs)]
    if metric is not None and correlation(runs, lambda run: run.peak) is not None:
        drawings.append(draw_schedules(runs, order, metric, schedules_seen(runs)))
    return drawings


def curve_table(runs: Sequence[TrackedRun]) -> Table:
    """One row a step, one column an arm."""
    arms = {arm: smoothed_at(own) for arm, own in arms_of(runs).items()}
    steps = _thinned(sorted({step for values in arms.values() for step in values}))
    return Table(
        NAME,
        "Normalised Fisher trace of the open layers, moving average",
        (
            Column("step", "Step", "optimizer steps done", numeric=False),
            *(Column(arm, arm, "mean ± standard deviation over seeds") for arm in arms),
        ),
        tuple((Entry(str(step), step), *(_entry(values.get(step, [])) for values in arms.values())) for step in steps),
        tuple(
            {
                "method": run.arm,
                "seed": run.seed,
                "step": record.step,
                "epoch": record.epoch,
                "batches": record.batches,
                "open_layers": len(record.open),
                "normalised": _number(run.normalised[place]),
                "moving_average": _number(run.smoothed[place]),
                "window": run.window,
            }
            for run in runs
            for place, record in enumerate(run.records)
        ),
    )


def layer_table(runs: Sequence[TrackedRun]) -> Table:
    """One row a layer, the top one first; one column an arm: the mean over steps and seeds. The CSV has each number."""
    means = {arm: mean_traces(own)[1].mean(axis=1) for arm, own in arms_of(runs).items()}
    names = list(dict.fromkeys(name for run in runs for name in run.layers))
    places = {run.arm: {name: place for place, name in enumerate(run.layers)} for run in runs}
    return Table(
        f"{NAME}-layers",
        "Fisher trace of each layer, open or closed: mean over the steps",
        (Column("layer", "Layer", numeric=False), *(Column(arm, arm, "mean over steps and seeds") for arm in means)),
        tuple(
            (
                Entry(name, place),
                *(_entry([means[arm][at]] if (at := places[arm].get(name)) is not None else []) for arm in means),
            )
            for place, name in enumerate(reversed(names))
        ),
        tuple(
            {
                "method": run.arm,
                "seed": run.seed,
                "step": record.step,
                "layer": layer,
                "open": int(layer in record.open),
                "trace": trace,
            }
            for run in runs
            for record in run.records
            for layer, trace in record.traces.items()
        ),
    )


def order_table(runs: Sequence[TrackedRun]) -> Table:
    """One row a step, one column an arm: the order in which FUN would open the layers, by the mean over seeds."""
    orders = {arm: _mean_orders(own) for arm, own in arms_of(runs).items()}
    steps = _thinned(sorted({step for order in orders.values() for step in order}))
    return Table(
        f"{NAME}-order",
        "The order in which FUN would open the layers",
        (
            Column("step", "Step", "optimizer steps done", numeric=False),
            *(Column(arm, arm, "the largest trace first, the mean over seeds", numeric=False) for arm in orders),
        ),
        tuple((Entry(str(step), step), *(Entry(order.get(step, NONE)) for order in orders.values())) for step in steps),
        tuple(
            {
                "method": run.arm,
                "seed": run.seed,
                "step": record.step,
                "order": _written(order_of(record)),
                "correlation_with_top_down": top_down(record),
            }
            for run in runs
            for record in run.records
        ),
    )


def schedule_table(runs: Sequence[TrackedRun], metric: ScoreFormat, split: str) -> Table:
    """One row a schedule: its score, and what its curve is like; with their correlation where it can be told."""
    schedules = arms_of([run for run in runs if run.is_schedule])
    records = []
    for arm, own in schedules.items():
        values: dict[str, Raw] = {"method": arm, "seeds": len(own), "score": _mean([run.score for run in own])}
        records.append(values | {name: _mean([of(run) for run in own]) for name, (_, of) in QUANTITIES.items()})
    helps = ("highest value of the curve", "its mean height", "correlation of FUN's last order with top-down")
    return Table(
        f"{NAME}-schedules",
        f"Schedules: Fisher trace and {metric.name}, {split}",
        (
            Column("method", "Method", numeric=False),
            Column("score", metric.label, split),
            *(Column(name, QUANTITIES[name][0], what) for name, what in zip(QUANTITIES, helps, strict=True)),
        ),
        tuple(
            (
                Entry(str(record["method"]), place),
                _score_entry(record["score"], metric),
                *(_entry([] if (value := record[name]) is None else [value]) for name in QUANTITIES),  # type: ignore[list-item]
            )
            for place, record in enumerate(records)
        ),
        tuple(records),
        notes=(schedules_seen(runs),),
    )


def seen(runs: Sequence[TrackedRun]) -> str:
    """What the curves show, in one sentence."""
    parts = []
    for arm, own in arms_of(runs).items():
        values = {step: float(np.mean(found)) for step, found in smoothed_at(own).items()}
        if values:
            top = max(values, key=values.__getitem__)
            parts.append(f"{arm} peaks at {values[top]:.3g} at step {top} and ends at {values[max(values)]:.3g}")
    return f"Per open layer, tr(F) of {'; of '.join(parts)}." if parts else "No layer is open at any measurement."


def schedules_seen(runs: Sequence[TrackedRun]) -> str:
    """How the schedules' curves go with their scores, in one sentence."""
    found = {name: correlation(runs, of) for name, (_, of) in QUANTITIES.items()}
    names = {"peak": "the peak", "area": "the area", "top_down": "the closeness of FUN's last order to top-down"}
    told = [f"{names[name]} {formats.decimal(pair[0])} (p = {pair[1]:.2g})" for name, pair in found.items() if pair]
    if not told:
        return "A correlation with the score needs four schedules or more with different values."
    count = len(arms_of([run for run in runs if run.is_schedule]))
    return f"Spearman's correlation with the score over {count} schedules: {formats.listed(told)}."


def _mean_orders(runs: Sequence[TrackedRun]) -> dict[int, str]:
    steps, traces = mean_traces(runs)
    names = runs[0].layers
    ranked = [sorted(range(len(names)), key=lambda place: (-column[place], -place)) for column in traces.T]
    return {step: _written([names[place] for place in order]) for step, order in zip(steps, ranked, strict=True)}


def _written(order: Sequence[str]) -> str:
    """As the method ``order:layers=`` takes it."""
    return "/".join(name.rpartition("layers.")[2] for name in order)


def _thinned(steps: list[int]) -> list[int]:
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_ROWS)).round().astype(int)
    return [steps[place] for place in dict.fromkeys(places.tolist())]


def _entry(values: Sequence[float]) -> Entry:
    summary = summarize(list(values))
    if summary.mean is None:
        return Entry(NONE)
    return Entry(f"{summary.mean:.3g}" + (f" ± {summary.sd:.2g}" if summary.sd is not None else ""), summary.mean)


def _score_entry(value: Raw, metric: ScoreFormat) -> Entry:
    return Entry(metric.value(value), value) if isinstance(value, float) else Entry(NONE)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
