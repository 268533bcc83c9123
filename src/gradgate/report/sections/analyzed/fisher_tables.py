"""The tables of the Fisher information, and what they show in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradgate.analysis.fisher import (
    NAME,
    FisherRun,
    arms_of,
    correlation,
    mean_traces,
    order_of,
    smoothed_at,
    top_down,
)
from gradgate.errors import listed
from gradgate.measure.track import FisherRecord
from gradgate.report import formats
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.table import Column, Entry, Table, records_of, step_column
from gradgate.statistics import summarize

_MOST_ROWS = 21
"""Steps that a table shows; its CSV file has them all."""
Quantity = Callable[[FisherRun], float | None]
QUANTITIES: dict[str, tuple[str, str, Quantity]] = {
    "peak": ("Peak", "maximum of the curve", lambda run: run.peak),
    "area": ("Area", "mean of the curve", lambda run: run.area),
    "top_down": (
        "Top-down",
        "correlation of FUN's last order with the top-down order",
        lambda run: top_down(run.records[-1]),
    ),
}
"""Key to title, help and value of what is correlated with scores."""


@dataclass(frozen=True)
class _Measurement:
    """One measurement of a run, of one of its layers if there is a name."""

    run: FisherRun
    place: int
    layer: str = ""

    @property
    def record(self) -> FisherRecord:
        return self.run.records[self.place]


_FIELDS: tuple[Column[_Measurement], ...] = (
    Column("method", raw=lambda at: at.run.arm),
    Column("seed", raw=lambda at: at.run.seed),
    Column("step", raw=lambda at: at.record.step),
)


def _measurements(runs: Sequence[FisherRun]) -> list[_Measurement]:
    return [_Measurement(run, place) for run in runs for place in range(len(run.records))]


def curve_table(runs: Sequence[FisherRun]) -> Table:
    """Return one row per step, one column per arm."""
    arms = {arm: smoothed_at(own) for arm, own in arms_of(runs).items()}
    steps = _thinned(sorted({step for values in arms.values() for step in values}))
    fields: tuple[Column[_Measurement], ...] = (
        *_FIELDS,
        Column("epoch", raw=lambda at: at.record.epoch),
        Column("batches", raw=lambda at: at.record.batches),
        Column("open_layers", raw=lambda at: len(at.record.open)),
        Column("normalised", raw=lambda at: _number(at.run.normalised[at.place])),
        Column("moving_average", raw=lambda at: _number(at.run.smoothed[at.place])),
        Column("window", raw=lambda at: at.run.window),
    )
    title = "Normalised Fisher trace of the open layers, moving average"
    columns = (step_column(), *(_curve_column(arm, values) for arm, values in arms.items()))
    return Table.of(NAME, title, steps, columns, records=records_of(_measurements(runs), fields))


def _curve_column(arm: str, values: dict[int, list[float]]) -> Column[int]:
    return Column(arm, arm, "mean ± standard deviation over seeds", show=lambda step: _entry(values.get(step, [])))


def layer_table(runs: Sequence[FisherRun]) -> Table:
    """Return one row per layer, the top one first, one column per arm: the mean over steps and seeds."""
    means = {arm: mean_traces(own)[1].mean(axis=1) for arm, own in arms_of(runs).items()}
    names = list(dict.fromkeys(name for run in runs for name in run.layers))
    places = {run.arm: {name: place for place, name in enumerate(run.layers)} for run in runs}
    top = {name: place for place, name in enumerate(reversed(names))}
    measured = [replace(at, layer=layer) for at in _measurements(runs) for layer in at.record.traces]
    fields: tuple[Column[_Measurement], ...] = (
        *_FIELDS,
        Column("layer", raw=lambda at: at.layer),
        Column("open", raw=lambda at: int(at.layer in at.record.open)),
        Column("trace", raw=lambda at: at.record.traces[at.layer]),
    )
    columns: tuple[Column[str], ...] = (
        Column("layer", "Layer", numeric=False, show=lambda name: Entry(name, top[name])),
        *(_layer_column(arm, places[arm], own.tolist()) for arm, own in means.items()),
    )
    title = "Fisher trace of each layer, open or closed: mean over the steps"
    return Table.of(f"{NAME}-layers", title, list(top), columns, records=records_of(measured, fields))


def _layer_column(arm: str, places: dict[str, int], means: list[float]) -> Column[str]:
    def show(name: str) -> Entry:
        return _entry([means[places[name]]] if name in places else [])

    return Column(arm, arm, "mean over steps and seeds", show=show)


def order_table(runs: Sequence[FisherRun]) -> Table:
    """Return one row per step, one column per arm: the order in which FUN would open the layers, by means of seeds."""
    orders = {arm: _mean_orders(own) for arm, own in arms_of(runs).items()}
    steps = _thinned(sorted({step for order in orders.values() for step in order}))
    fields: tuple[Column[_Measurement], ...] = (
        *_FIELDS,
        Column("order", raw=lambda at: _written(order_of(at.record))),
        Column("correlation_with_top_down", raw=lambda at: top_down(at.record)),
    )
    columns = (step_column(), *(_order_column(arm, order) for arm, order in orders.items()))
    title = "Order in which FUN would open the layers"
    return Table.of(f"{NAME}-order", title, steps, columns, records=records_of(_measurements(runs), fields))


def _order_column(arm: str, order: dict[int, str]) -> Column[int]:
    about = "largest trace first, by means over seeds"
    return Column(arm, arm, about, numeric=False, show=lambda step: Entry(order.get(step, NONE)))


def schedule_table(runs: Sequence[FisherRun], metric: ScoreFormat, split: str) -> Table:
    """Return one row per schedule: its score, what its curve is like, and their correlation if there are enough."""
    schedules = arms_of([run for run in runs if run.is_schedule])
    places = {arm: place for place, arm in enumerate(schedules)}
    scores = {arm: _mean([run.score for run in own]) for arm, own in schedules.items()}
    columns: tuple[Column[str], ...] = (
        Column("method", "Method", numeric=False, show=lambda arm: Entry(arm, places[arm]), raw=lambda arm: arm),
        Column("seeds", raw=lambda arm: len(schedules[arm])),
        Column(
            "score",
            metric.label,
            split,
            show=lambda arm: NONE if scores[arm] is None else metric.value(scores[arm]),
            raw=lambda arm: scores[arm],
        ),
        *(_quantity_column(schedules, name) for name in QUANTITIES),
    )
    title = f"Schedules: Fisher trace and {metric.name}, {split}"
    return Table.of(f"{NAME}-schedules", title, list(schedules), columns, notes=(schedules_caption(runs),))


def _quantity_column(schedules: dict[str, list[FisherRun]], name: str) -> Column[str]:
    title, about, of = QUANTITIES[name]
    means = {arm: _mean([of(run) for run in own]) for arm, own in schedules.items()}

    def show(arm: str) -> Entry:
        return _entry([] if (value := means[arm]) is None else [value])

    return Column(name, title, about, show=show, raw=lambda arm: means[arm])


def caption(runs: Sequence[FisherRun]) -> str:
    """Say what the curves show, in one sentence."""
    parts = []
    for arm, own in arms_of(runs).items():
        values = {step: float(np.mean(found)) for step, found in smoothed_at(own).items()}
        if values:
            top = max(values, key=values.__getitem__)
            parts.append(f"{arm} peaks at {values[top]:.3g} at step {top} and ends at {values[max(values)]:.3g}")
    return f"Per open layer, tr(F) of {'; of '.join(parts)}." if parts else "No layer was open at any measurement."


def schedules_caption(runs: Sequence[FisherRun]) -> str:
    """Say how the schedules' curves go with their scores, in one sentence."""
    found = {name: correlation(runs, of) for name, (_, _, of) in QUANTITIES.items()}
    names = {"peak": "the peak", "area": "the area", "top_down": "the correlation of FUN's last order with top-down"}
    parts = [f"{names[name]} {formats.decimal(pair[0])} (p = {pair[1]:.2g})" for name, pair in found.items() if pair]
    if not parts:
        return "A correlation with the score needs at least four schedules with different values."
    count = len(arms_of([run for run in runs if run.is_schedule]))
    return f"Spearman's correlation with the score over {count} schedules: {listed(parts)}."


def _mean_orders(runs: Sequence[FisherRun]) -> dict[int, str]:
    steps, traces = mean_traces(runs)
    names = runs[0].layers
    ranked = [sorted(range(len(names)), key=lambda place: (-column[place], -place)) for column in traces.T]
    return {step: _written([names[place] for place in order]) for step, order in zip(steps, ranked, strict=True)}


def _written(order: Sequence[str]) -> str:
    """Return an order as the method ``order:layers=`` takes it."""
    return "/".join(name.rpartition("layers.")[2] for name in order)


def _thinned(steps: list[int]) -> list[int]:
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_ROWS)).round().astype(int)
    return [steps[place] for place in dict.fromkeys(places.tolist())]


def _entry(values: Sequence[float]) -> Entry:
    summary = summarize(list(values))
    if summary.mean is None:
        return Entry(NONE)
    return Entry(f"{summary.mean:.3g}" + (f" ± {summary.sd:.2g}" if summary.sd is not None else ""), summary.mean)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
