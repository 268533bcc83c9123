"""Scores on the test splits after each epoch, where runs have noted them (GradDrop, Fig. 2; AdapterEff, Fig. 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from gradgate.report.drawing import Drawing, finish, legend_below, styled, wrapped
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE, ScoreFormat, counted
from gradgate.report.sections.base import Section
from gradgate.report.sections.losses import LOSS, ByStep, by_step, draw_means, steps_to_the_right
from gradgate.report.table import Column, Entry, Raw, Table, spread_entry, spread_record
from gradgate.runs.records import comparable
from gradgate.study.results import RunResult

NAME = "epoch-tests"
UNUSED = "Nothing was selected by these scores."


@dataclass(frozen=True)
class EpochCurve:
    """One method's means over the shown splits."""

    method: MethodFindings
    scores: ByStep
    losses: ByStep


@dataclass(frozen=True)
class EpochCurvesSection(Section):
    """What ``--test-each-epoch`` has noted.

    Attributes:
        splits: that the curves are means over: the target languages, or all where there are none.
    """

    curves: list[EpochCurve]
    splits: tuple[str, ...]

    @classmethod
    def find(cls, findings: Findings) -> EpochCurvesSection | None:
        """None where nothing was noted in the study's metric."""
        splits = _splits(findings)
        metric = findings.format.metric
        found = [
            EpochCurve(
                method,
                by_step(_means(cell, splits, metric) for cell in method.finished),
                by_step(_means(cell, splits, LOSS) for cell in method.finished),
            )
            for method in findings.scored
        ]
        curves = [curve for curve in found if curve.scores]
        return cls(findings, curves, splits) if curves else None

    @property
    def over(self) -> str:
        """What the curves are means over."""
        if len(self.splits) == 1:
            return self.findings.results.language(self.splits[0])
        kind = "target language" if self.findings.results.study.task.languages else "test split"
        return f"mean over {counted(len(self.splits), kind)}"

    def tables(self) -> list[Table]:
        """One row an epoch, one column a method; the CSV has each split."""
        return [epoch_table(self)]

    def drawings(self) -> list[Drawing]:
        """Scores, and losses where they were noted."""
        return [draw_epochs(self)]


def _splits(findings: Findings) -> tuple[str, ...]:
    noted = dict.fromkeys(
        record.split for method in findings.scored for cell in method.finished for record in cell.test_history
    )
    task = findings.results.study.task
    targets = tuple(split for split in noted if task.languages.get(split, task.source) != task.source)
    return targets or tuple(noted)


def _means(cell: RunResult, splits: Sequence[str], metric: str) -> list[tuple[int, float]]:
    """Step to the mean over the splits, where each has the metric."""
    values: dict[int, dict[str, float]] = {}
    for record in cell.test_history:
        if record.split in splits and comparable(value := record.metrics.get(metric)):
            values.setdefault(record.step, {})[record.split] = value
    return [(step, fmean(found.values())) for step, found in values.items() if len(found) == len(splits)]


def epoch_table(section: EpochCurvesSection) -> Table:
    """One row an epoch, one column a method."""
    metric, curves = section.findings.format, section.curves
    steps = sorted({step for curve in curves for step in curve.scores})
    return Table(
        NAME,
        f"Scores while training: {metric.label}, {section.over}",
        (
            Column("step", "Step", "optimizer steps done", numeric=False),
            *(Column(c.method.name, c.method.name, "mean ± standard deviation over seeds") for c in curves),
        ),
        tuple(
            (
                Entry(str(step), step),
                *(spread_entry(c.scores[step], metric) if step in c.scores else Entry(NONE) for c in curves),
            )
            for step in steps
        ),
        tuple(_records(section, metric)),
        notes=(UNUSED,),
    )


def _records(section: EpochCurvesSection, metric: ScoreFormat) -> list[dict[str, Raw]]:
    found: list[dict[str, Raw]] = []
    for curve in section.curves:
        cells = curve.method.finished
        noted = dict.fromkeys(record.split for cell in cells for record in cell.test_history)
        for split in noted:
            for name in (metric.metric, LOSS):
                values = by_step(_means(cell, (split,), name) for cell in cells)
                place = {"method": curve.method.name, "split": split, "metric": name}
                found += [{**place, "step": step, **spread_record(seeds)} for step, seeds in values.items()]
    return found


def draw_epochs(section: EpochCurvesSection) -> Drawing:
    """The scores over steps, and below them the losses."""
    findings, metric = section.findings, section.findings.format
    with_losses = all(curve.losses for curve in section.curves)
    with styled((4.4 if with_losses else 2.9) + 0.19 * len(section.curves)) as figure:
        panels = np.atleast_1d(figure.subplots(1 + with_losses, sharex=True))
        for curve in section.curves:
            place = findings.methods.index(curve.method)
            draw_means(panels[0], curve.scores, place, curve.method.name, metric.factor)
            if with_losses:
                draw_means(panels[1], curve.losses, place, "")
        panels[0].set_ylabel(wrapped(metric.label))
        if with_losses:
            panels[1].set_ylabel("loss")
        steps_to_the_right(panels[-1])
        legend_below(figure)
        caption = (
            f"{seen(section)} Test, {section.over}, after each epoch; lines are means over the seeds, bands ± one "
            f"standard deviation. {UNUSED}"
        )
        return finish(figure, NAME, "Test scores while training", caption, seen(section), NAME)


def seen(section: EpochCurvesSection) -> str:
    """What the scores show, in one sentence."""
    sign = 1 if section.findings.results.study.task.metric_higher_is_better else -1
    value, parts = section.findings.format.value, []
    for curve in section.curves:
        means = {step: fmean(values) for step, values in curve.scores.items()}
        best, last = max(means, key=lambda step: (sign * means[step], -step)), max(means)
        end = "its best" if best == last else f"after {value(means[best])} at step {best}"
        parts.append(f"{curve.method.name} ends at {value(means[last])}, {end}")
    return f"{'; '.join(parts)}."
