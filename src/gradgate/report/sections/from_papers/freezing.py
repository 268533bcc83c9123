"""Show what freezing ever more layers costs and saves: the curve of "What would Elsa do?", if a study has it.

Lee et al. 2019, Sec. 3 and 4: https://arxiv.org/abs/1911.03090
"""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.errors import counted, listed
from gradgate.methods import Head
from gradgate.report import formats
from gradgate.report.drawing import Drawing
from gradgate.report.sections.base import Section
from gradgate.report.sections.from_papers.freezing_curve import ENOUGH, FreezeCurve, find_curve
from gradgate.report.sections.from_papers.freezing_figure import draw_freezing
from gradgate.report.sections.from_papers.freezing_table import TASKS, freeze_table
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Table

_SWEEP = 3
"""With as many numbers of frozen layers, a study asks for the curve."""


@dataclass(frozen=True)
class FreezingSection(Section):
    """Quality kept and parameters saved by frozen layers."""

    curve: FreezeCurve

    @classmethod
    def find(cls, study: StudySummary) -> FreezingSection | None:
        """Return None for a study without a curve."""
        curve = find_curve(study)
        return cls(study, curve) if curve else None

    @property
    def on_page(self) -> bool:
        """Whether the study compares enough numbers of frozen layers, or each of them as ``--sweep freeze`` does."""
        heads = {arm.name for arm in self.study.results.study.arms if isinstance(arm.method, Head)}
        swept = [point for point in self.curve.points if point.arm.name not in heads]
        return len(self.curve.points) >= _SWEEP or len(swept) == self.curve.layers

    def tables(self) -> list[Table]:
        """Return one row per number of frozen layers."""
        return [freeze_table(self.curve)]

    def drawings(self) -> list[Drawing]:
        """Draw the curve, if it is defined."""
        drawing = draw_freezing(self.curve)
        return [drawing] if drawing else []

    def remarks(self) -> list[str]:
        """Say how few tuned layers suffice."""
        return [answer(self.curve)]

    def notes(self) -> list[str]:
        """Say how relative quality and savings are defined."""
        return notes(self.curve)


def answer(curve: FreezeCurve) -> str:
    """Say how few tuned layers kept 0.95 in the runs, in one sentence, or why that is undefined."""
    full, metric = curve.full, curve.study.format
    measured = [point for point in curve.points if point.quality is not None]
    if not measured:
        return f"Relative quality is undefined: {_why_undefined(curve)}."
    what = f"{full.name}'s {metric.name} on {curve.study.split_label}"
    best = curve.fewest_tuned
    if best is None:
        nearest = max(measured, key=lambda point: point.quality or 0.0)
        return (
            f"No measured point keeps {ENOUGH} of {what}; the nearest, {nearest.arm.name}, keeps "
            f"{formats.quality(nearest.quality)}."
        )
    tuned = counted(curve.layers - best.frozen, "layer") if best.frozen < curve.layers else "the head alone"
    short = [point.arm.name for point in measured if point.frozen < best.frozen and not point.enough]
    although = f", although {listed(short)} {'keeps' if len(short) == 1 else 'keep'} less" if short else ""
    return (
        f"Training {tuned}{f' of {curve.layers}' if best.frozen < curve.layers else ''} kept at least {ENOUGH} of "
        f"{what}: {best.arm.name} keeps {formats.quality(best.quality)} (mean of {counted(len(best.ratios), 'seed')}, "
        f"not tested){although}."
    )


def _why_undefined(curve: FreezeCurve) -> str:
    mean = curve.full.score.mean
    if mean is not None and mean <= 0:
        return (
            f"{curve.full.name} scored {curve.study.format.value(mean)} on {curve.study.split_label}, and a share "
            "of a score is meaningful only above 0"
        )
    return f"no point shares a finished seed with {curve.full.name}, with scores above 0"


def notes(curve: FreezeCurve) -> list[str]:
    """Say how the numbers come about, for a reader who was not there."""
    full = curve.full.name
    higher = curve.study.record.task.metric_higher_is_better
    share = f"its mean score over that of {full}" if higher else f"the mean score of {full} over its own"
    units = len(curve.study.units)
    if units > 1:
        share = f"the mean of {units} ratios, each {share} on one {curve.study.results.split_unit}"
    return [
        f"The relative quality of a point is {share}, over the seeds that both finished (Lee et al. 2019). It "
        "ignores the score that guessing would reach, and says little if a score is near 0.",
        "Saved parameters: K tasks share one copy of the frozen part (embeddings E and N layers) and keep K "
        "copies of the rest, which saves (K − 1)(E + N layers) / (K × all) of the parameters of K full models. "
        "Tied weights count once.",
        *_note_on_files(curve),
    ]


def _note_on_files(curve: FreezeCurve) -> list[str]:
    if not any(point.arm.cost.files for point in curve.points):
        return []
    return [
        f"File sizes are those on disk, for {TASKS} tasks: the pretrained model once, if the runs stored deltas "
        f"to it, plus {TASKS} times what the row's largest run stored, compared with {TASKS} full models. A run "
        "stores its full model if a delta would be at least half as large."
    ]
