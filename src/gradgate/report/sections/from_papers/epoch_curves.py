"""Show scores on the test splits after each epoch, if runs noted them (GradDrop, Fig. 2; AdapterEff, Fig. 10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from gradgate.errors import counted
from gradgate.report.drawing import Drawing, finish, styled, wrapped
from gradgate.report.formats import ScoreFormat
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import Section
from gradgate.report.sections.from_papers.losses import LOSS, ByStep, by_step, draw_means, steps_to_the_right
from gradgate.report.shared_steps import shared_steps
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Table, records_of, spread_entry, spread_fields, step_column
from gradgate.runs.scores import comparable
from gradgate.statistics import Summary, summarize
from gradgate.study.run_result import RunResult

NAME = "epoch-tests"
UNUSED = "Nothing was selected by these scores."


@dataclass(frozen=True)
class EpochCurve:
    """One arm's means over the shown splits."""

    arm: ArmSummary
    scores: ByStep
    losses: ByStep


@dataclass(frozen=True)
class EpochCurvesSection(Section):
    """The test scores of each epoch, which ``--test-each-epoch`` has noted.

    Attributes:
        splits: that the curves are means over: the target languages, or all if there are none.
    """

    curves: list[EpochCurve]
    splits: tuple[str, ...]

    @classmethod
    def find(cls, study: StudySummary) -> EpochCurvesSection | None:
        """Return None if nothing was noted in the study's metric."""
        splits = _splits(study)
        metric = study.format.metric
        found = [
            EpochCurve(arm, _means(arm.finished, splits, metric), _means(arm.finished, splits, LOSS))
            for arm in study.scored
        ]
        curves = [curve for curve in found if curve.scores]
        return cls(study, curves, splits) if curves else None

    @property
    def over(self) -> str:
        """The language or the splits that the curves are means over, for people."""
        if len(self.splits) == 1:
            return self.study.results.language(self.splits[0])
        kind = "target language" if self.study.record.task.languages else "test split"
        return f"mean over {counted(len(self.splits), kind)}"

    def tables(self) -> list[Table]:
        """Return one row per epoch, one column per method; the CSV has each split."""
        return [epoch_table(self)]

    def drawings(self) -> list[Drawing]:
        """Draw the scores, and the losses if they were noted."""
        return [draw_epochs(self)]


def _splits(study: StudySummary) -> tuple[str, ...]:
    noted = dict.fromkeys(record.split for arm in study.scored for cell in arm.finished for record in cell.test_history)
    task = study.record.task
    targets = tuple(split for split in noted if task.languages.get(split, task.source) != task.source)
    return targets or tuple(noted)


def _means(cells: Sequence[RunResult], splits: Sequence[str], metric: str) -> ByStep:
    """Return step to each run's mean over the splits, if each split has the metric."""
    step_of = shared_steps(record for cell in cells for record in cell.test_history)
    runs = []
    for cell in cells:
        values: dict[int, dict[str, float]] = {}
        for record in cell.test_history:
            if record.split in splits and comparable(value := record.metrics.get(metric)):
                values.setdefault(step_of(record), {})[record.split] = value
        runs.append([(step, fmean(found.values())) for step, found in values.items() if len(found) == len(splits)])
    return by_step(runs)


def epoch_table(section: EpochCurvesSection) -> Table:
    """Return one row per epoch, one column per method."""
    metric, curves = section.study.format, section.curves
    fields: tuple[Column[_EpochScores], ...] = (
        Column("method", raw=lambda row: row.arm),
        Column("split", raw=lambda row: row.split),
        Column("metric", raw=lambda row: row.metric),
        Column("step", raw=lambda row: row.step),
        *spread_fields(lambda row: row.values),
    )
    return Table.of(
        NAME,
        f"Test scores during training: {metric.label}, {section.over}",
        sorted({step for curve in curves for step in curve.scores}),
        (step_column(), *(_arm_column(curve, metric) for curve in curves)),
        records=records_of(_noted(section, metric), fields),
        notes=(UNUSED,),
    )


def _arm_column(curve: EpochCurve, metric: ScoreFormat) -> Column[int]:
    at = {step: summarize(values) for step, values in curve.scores.items()}
    name = curve.arm.name
    return Column(
        name, name, "mean ± standard deviation over seeds", show=lambda step: spread_entry(at.get(step), metric)
    )


@dataclass(frozen=True)
class _EpochScores:
    """The values of one arm on one split after one step."""

    arm: str
    split: str
    metric: str
    step: int
    values: Summary


def _noted(section: EpochCurvesSection, metric: ScoreFormat) -> Iterator[_EpochScores]:
    """Yield what was noted on each split."""
    for curve in section.curves:
        cells = curve.arm.finished
        for split in dict.fromkeys(record.split for cell in cells for record in cell.test_history):
            for name in (metric.metric, LOSS):
                for step, values in _means(cells, (split,), name).items():
                    yield _EpochScores(curve.arm.name, split, name, step, summarize(values))


def draw_epochs(section: EpochCurvesSection) -> Drawing:
    """Draw the scores over steps, and below them the losses."""
    study, metric = section.study, section.study.format
    with_losses = all(curve.losses for curve in section.curves)
    with styled((4.4 if with_losses else 2.9) + 0.19 * len(section.curves)) as figure:
        panels = np.atleast_1d(figure.subplots(1 + with_losses, sharex=True))
        for curve in section.curves:
            place = study.place(curve.arm)
            draw_means(panels[0], curve.scores, place, curve.arm.name, metric.factor)
            if with_losses:
                draw_means(panels[1], curve.losses, place, "")
        panels[0].set_ylabel(wrapped(metric.label))
        if with_losses:
            panels[1].set_ylabel("loss")
        steps_to_the_right(panels[-1])
        name_marks(figure)
        said = caption(section)
        whole = (
            f"{said} Test, {section.over}, after each epoch; lines are means over the seeds, bands ± one "
            f"standard deviation. {UNUSED}"
        )
        return finish(figure, NAME, "Test scores during training", whole, said, NAME)


def caption(section: EpochCurvesSection) -> str:
    """Say what the scores show, in one sentence."""
    sign = 1 if section.study.record.task.metric_higher_is_better else -1
    value, parts = section.study.format.value, []
    for curve in section.curves:
        means = {step: fmean(values) for step, values in curve.scores.items()}
        best, last = max(means, key=lambda step: (sign * means[step], -step)), max(means)
        end = "its best" if best == last else f"after {value(means[best])} at step {best}"
        parts.append(f"{curve.arm.name} ends at {value(means[last])}, {end}")
    return f"{'; '.join(parts)}."
