"""The loss on train and dev while the runs were trained (AdapterEff, Fig. 5 and 9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gradgate.report.drawing import MUTED, Drawing, finish, legend_below, legend_label, look, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Table, spread_record
from gradgate.runs.records import DEV, TRAIN, comparable
from gradgate.study.results import RunResult

NAME, LOSS = "losses", "loss"
ByStep = dict[int, list[float]]
"""Optimizer steps done to the values of the seeds."""


@dataclass(frozen=True)
class LossCurves:
    """One method's losses.

    Attributes:
        train: as they were noted.
        windows: those of train over whole windows, as they are drawn.
    """

    method: MethodFindings
    train: ByStep
    windows: ByStep
    dev: ByStep


@dataclass(frozen=True)
class LossesSection(Section):
    """The losses while the runs were trained."""

    curves: list[LossCurves]

    @classmethod
    def find(cls, findings: Findings) -> LossesSection | None:
        """None unless a run has noted both."""
        found = [
            LossCurves(
                method,
                by_step(cell.losses for cell in method.finished),
                by_step(whole_windows(cell.losses) for cell in method.finished),
                by_step(map(_dev, method.finished)),
            )
            for method in findings.scored
        ]
        curves = [curve for curve in found if curve.train and curve.dev]
        return cls(findings, curves) if curves else None

    def tables(self) -> list[Table]:
        """One row an evaluation on dev; the CSV has every noted loss."""
        return [loss_table(self.curves)]

    def drawings(self) -> list[Drawing]:
        """Train above, dev below."""
        return [draw_losses(self.findings, self.curves)]


def _dev(cell: RunResult) -> list[tuple[int, float]]:
    found = [(record.step, record.metrics.get(LOSS)) for record in cell.history]
    return [(step, value) for step, value in found if comparable(value)]


def by_step(runs: Iterable[Sequence[tuple[int, float]]]) -> ByStep:
    """The values of several runs, by step."""
    found: ByStep = defaultdict(list)
    for run in runs:
        for step, value in run:
            found[step].append(value)
    return dict(sorted(found.items()))


def loss_table(curves: Sequence[LossCurves]) -> Table:
    """One row an evaluation on dev, one column a method: dev, and in brackets the training loss noted last before."""
    steps = sorted({step for curve in curves for step in curve.dev})
    return Table(
        NAME,
        "Loss on dev (train)",
        (
            Column("step", "Step", "optimizer steps done", numeric=False),
            *(
                Column(c.method.name, c.method.name, "mean over seeds; train is the mean since its last note")
                for c in curves
            ),
        ),
        tuple((Entry(str(step), step), *(_entry(curve, step) for curve in curves)) for step in steps),
        tuple(
            {"method": curve.method.name, "split": split, "step": step, **spread_record(values)}
            for curve in curves
            for split, losses in ((TRAIN, curve.train), (DEV, curve.dev))
            for step, values in losses.items()
        ),
    )


def _entry(curve: LossCurves, step: int) -> Entry:
    if step not in curve.dev:
        return Entry(NONE)
    before = [noted for noted in curve.train if noted <= step]
    train = f"({np.mean(curve.train[max(before)]):.3f})" if before else ""
    value = float(np.mean(curve.dev[step]))
    return Entry(f"{value:.3f}", value, train)


def draw_losses(findings: Findings, curves: Sequence[LossCurves]) -> Drawing:
    """The losses over steps, a line for each method."""
    with styled(4.4 + 0.19 * len(curves)) as figure:
        panels = figure.subplots(2, sharex=True)
        for curve in curves:
            place = findings.methods.index(curve.method)
            draw_means(panels[0], curve.windows, place, curve.method.name)
            draw_means(panels[1], curve.dev, place, "")
        for axes, split in zip(panels, (TRAIN, DEV), strict=True):
            axes.set_ylabel(f"loss, {split}")
        steps_to_the_right(panels[-1])
        legend_below(figure)
        caption = f"{seen(curves)} Lines are means over the seeds, bands ± one standard deviation."
        return finish(figure, NAME, "Loss while training", caption, seen(curves), NAME)


def whole_windows(noted: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Losses of train of one run, each the mean since the one before, without windows that an epoch's end cuts short.

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
    """Of two windows of steps: the last step, the length, and the mean loss."""
    (_, first, before), (end, second, after) = one, other
    return end, first + second, (first * before + second * after) / (first + second)


def draw_means(axes: Axes, values: Mapping[int, Sequence[float]], place: int, label: str, factor: float = 1.0) -> None:
    """A line of means over the seeds with a band of one standard deviation; without a label it has no entry."""
    style, steps = look(place), np.array(list(values))
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


def seen(curves: Sequence[LossCurves]) -> str:
    """What the losses show, in one sentence."""
    parts = []
    for curve in curves:
        train = [float(np.mean(values)) for values in curve.windows.values()]
        dev = {step: float(np.mean(values)) for step, values in curve.dev.items()}
        lowest, last = min(dev, key=dev.__getitem__), max(dev)
        end = "its lowest" if lowest == last else f"after {dev[lowest]:.3f} at step {lowest}"
        parts.append(
            f"{curve.method.name} goes from {train[0]:.3f} to {train[-1]:.3f} on train and ends at {dev[last]:.3f} on "
            f"dev, {end}"
        )
    return f"{'; '.join(parts)}."
