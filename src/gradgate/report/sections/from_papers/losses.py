"""Show the loss on train and dev while the runs were trained (AdapterEff, Fig. 5 and 9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gradgate.report.drawing import MUTED, Drawing, finish, legend_label, style_of, styled
from gradgate.report.formats import NONE
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import Section
from gradgate.report.shared_steps import shared_steps
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, spread_fields, step_column
from gradgate.runs.records import DEV, TRAIN
from gradgate.runs.scores import comparable
from gradgate.statistics import Summary, summarize
from gradgate.study.run_result import RunResult

NAME, LOSS = "losses", "loss"
ByStep = dict[int, list[float]]
"""Optimizer steps done to the values of the seeds."""


@dataclass(frozen=True)
class LossCurves:
    """One arm's losses.

    Attributes:
        train: as they were noted.
        windows: those of train over whole windows, as they are drawn.
    """

    arm: ArmSummary
    train: ByStep
    windows: ByStep
    dev: ByStep


@dataclass(frozen=True)
class LossesSection(Section):
    """The losses while the runs were trained."""

    curves: list[LossCurves]

    @classmethod
    def find(cls, study: StudySummary) -> LossesSection | None:
        """Return None unless a run has noted both."""
        found = [
            LossCurves(
                arm,
                by_step(cell.losses for cell in arm.finished),
                by_step(whole_windows(cell.losses) for cell in arm.finished),
                _dev(arm.finished),
            )
            for arm in study.scored
        ]
        curves = [curve for curve in found if curve.train and curve.dev]
        return cls(study, curves) if curves else None

    @property
    def on_page(self) -> bool:
        """Whether the section is shown by default: never, as learning curves have the scores."""
        return False

    def tables(self) -> list[Table]:
        """Return one row per evaluation on dev; the CSV has every noted loss."""
        return [loss_table(self.curves)]

    def drawings(self) -> list[Drawing]:
        """Draw train above, dev below."""
        return [draw_losses(self.study, self.curves)]


def _dev(cells: Sequence[RunResult]) -> ByStep:
    records = [record for cell in cells for record in cell.history]
    step_of = shared_steps(records)
    found = [(step_of(record), record.metrics.get(LOSS)) for record in records]
    return by_step([[(step, value) for step, value in found if comparable(value)]])


def by_step(runs: Iterable[Sequence[tuple[int, float]]]) -> ByStep:
    """Return the values of several runs by step."""
    found: ByStep = defaultdict(list)
    for run in runs:
        for step, value in run:
            found[step].append(value)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class _StepLosses:
    """The losses of one arm on one split at one step."""

    arm: str
    split: str
    step: int
    values: Summary


def loss_table(curves: Sequence[LossCurves]) -> Table:
    """Return one row per evaluation on dev, one column per method: dev, and in brackets the last training loss."""
    steps = sorted({step for curve in curves for step in curve.dev})
    noted = [
        _StepLosses(curve.arm.name, split, step, summarize(values))
        for curve in curves
        for split, losses in ((TRAIN, curve.train), (DEV, curve.dev))
        for step, values in losses.items()
    ]
    fields: tuple[Column[_StepLosses], ...] = (
        Column("method", raw=lambda row: row.arm),
        Column("split", raw=lambda row: row.split),
        Column("step", raw=lambda row: row.step),
        *spread_fields(lambda row: row.values),
    )
    columns = (step_column(), *map(_arm_column, curves))
    return Table.of(NAME, "Loss on dev (train)", steps, columns, records=records_of(noted, fields))


def _arm_column(curve: LossCurves) -> Column[int]:
    about = "mean over seeds; the train loss is averaged since the previous log"
    return Column(curve.arm.name, curve.arm.name, about, show=lambda step: _entry(curve, step))


def _entry(curve: LossCurves, step: int) -> Entry:
    if step not in curve.dev:
        return Entry(NONE)
    before = [noted for noted in curve.train if noted <= step]
    train = f"({np.mean(curve.train[max(before)]):.3f})" if before else ""
    value = float(np.mean(curve.dev[step]))
    return Entry(f"{value:.3f}", value, train)


def draw_losses(study: StudySummary, curves: Sequence[LossCurves]) -> Drawing:
    """Draw the losses over steps, one line per arm."""
    with styled(4.4 + 0.19 * len(curves)) as figure:
        panels = figure.subplots(2, sharex=True)
        for curve in curves:
            place = study.place(curve.arm)
            draw_means(panels[0], curve.windows, place, curve.arm.name)
            draw_means(panels[1], curve.dev, place, "")
        for axes, split in zip(panels, (TRAIN, DEV), strict=True):
            axes.set_ylabel(f"loss, {split}")
        steps_to_the_right(panels[-1])
        name_marks(figure)
        said = caption(curves)
        whole = f"{said} Lines are means over the seeds, bands ± one standard deviation."
        return finish(figure, NAME, "Loss during training", whole, said, NAME)


def whole_windows(noted: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return training losses of one run, each the mean since the one before, without windows that an epoch cuts short.

    One of less than half the longest is joined to the next, the last one to that before it: the mean over a few steps
    is far from its neighbours.
    """
    windows = [(end, end - begin, loss) for (begin, _), (end, loss) in pairwise([(0, 0.0), *noted])]
    enough = max((length for _, length, _ in windows), default=0) / 2
    joined: list[tuple[int, int, float]] = []
    for window in windows:
        joined.append(_joined(joined.pop(), window) if joined and joined[-1][1] < enough else window)
    if len(joined) > 1 and joined[-1][1] < enough:
        last = joined.pop()
        joined.append(_joined(joined.pop(), last))
    return [(end, loss) for end, _, loss in joined]


def _joined(one: tuple[int, int, float], other: tuple[int, int, float]) -> tuple[int, int, float]:
    """Join two windows: the last step, the length, and the mean loss."""
    (_, first, before), (end, second, after) = one, other
    return end, first + second, (first * before + second * after) / (first + second)


def draw_means(axes: Axes, values: Mapping[int, Sequence[float]], place: int, label: str, factor: float = 1.0) -> None:
    """Draw a line of means over the seeds and a band of one standard deviation; without a label it has no entry."""
    style, steps = style_of(place), np.array(list(values))
    means = factor * np.array([np.mean(found) for found in values.values()])
    spread = factor * np.array([np.std(found, ddof=1) if len(found) > 1 else 0.0 for found in values.values()])
    marker = style.marker if len(steps) <= 25 else ""
    name = legend_label(label, 40) if label else None
    axes.plot(steps, means, color=style.colour, ls=style.dash, lw=1.6, marker=marker, ms=3.5, label=name)
    axes.fill_between(steps, means - spread, means + spread, color=style.colour, alpha=0.14, lw=0)
    axes.grid(color=MUTED, alpha=0.2, lw=0.6)


def steps_to_the_right(axes: Axes) -> None:
    """Label the lowest axis of figures over steps."""
    axes.set_xlabel("optimizer steps")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def caption(curves: Sequence[LossCurves]) -> str:
    """Say what the losses show, in one sentence."""
    parts = []
    for curve in curves:
        train = [float(np.mean(values)) for values in curve.windows.values()]
        dev = {step: float(np.mean(values)) for step, values in curve.dev.items()}
        lowest, last = min(dev, key=dev.__getitem__), max(dev)
        end = "its lowest" if lowest == last else f"after {dev[lowest]:.3f} at step {lowest}"
        parts.append(
            f"{curve.arm.name} goes from {train[0]:.3f} to {train[-1]:.3f} on train and ends at {dev[last]:.3f} on "
            f"dev, {end}"
        )
    return f"{'; '.join(parts)}."
