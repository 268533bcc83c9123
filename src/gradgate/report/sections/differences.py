"""The forest plot of a study: how far each arm is from the reference, with the intervals of the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, style_of, styled
from gradgate.report.sections.base import Section
from gradgate.report.sections.intervals import draw_interval, limits_of
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.statistics import Verdict


@dataclass(frozen=True)
class _JudgedArm:
    """An arm and the verdict on it, which has an interval."""

    arm: ArmSummary
    verdict: Verdict
    difference: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class DifferencesSection(Section):
    """The differences to the reference as a figure; the numbers are in the main table."""

    rows: tuple[_JudgedArm, ...]

    @classmethod
    def find(cls, study: StudySummary) -> DifferencesSection | None:
        """Return None unless two arms have an interval: the main table has room for one."""
        judged = [(arm, arm.judged.verdict) for arm in study.others if arm.judged is not None]
        rows = tuple(
            _JudgedArm(arm, verdict, verdict.comparison.difference, verdict.interval_corrected)
            for arm, verdict in judged
            if verdict.comparison.difference is not None and verdict.interval_corrected is not None
        )
        return cls(study, rows) if len(rows) > 1 else None

    def drawings(self) -> list[Drawing]:
        """Draw one line per arm, the best first."""
        return [draw_differences(self.study, self.rows)]


def draw_differences(study: StudySummary, rows: tuple[_JudgedArm, ...]) -> Drawing:
    """Draw each difference as a diamond and its corrected interval as a bar; a band is the margin."""
    factor, reference = study.format.factor, study.reference.name
    margins = {row.verdict.margin for row in rows}
    margin = margins.pop() if len(margins) == 1 else None
    points = [factor * row.difference for row in rows]
    low, high = limits_of([0.0, *points], [factor * end for row in rows for end in row.interval])
    with styled(0.75 + 0.5 * len(rows)) as figure:
        axes = figure.add_subplot()
        if margin is not None:
            axes.axvspan(-factor * margin, factor * margin, color=MUTED, alpha=0.15, lw=0, zorder=0)
        for place, row in enumerate(rows):
            _draw_row(axes, study, row, -place, (low, high))
        better = "higher" if study.higher_is_better else "lower"
        label = formats.shortened(f"difference to {reference}, {study.format.label}", 52)
        axes.set(xlim=(low, high), ylim=(-len(rows) + 0.6, 0.75), yticks=[], xlabel=label)
        axes.spines["left"].set_visible(False)
        caption = (
            f"Mean differences to {reference}, {study.pairing.matched} ({better} is better), with 95% intervals "
            "corrected over the methods. An interval that excludes 0 shows a difference. Arrows: beyond the axis."
        )
        if margin is not None:
            caption += f" Grey: within the margin of {factor * margin:g}, which counts as no difference."
        return finish(figure, "differences", f"Differences to {reference}", caption, _text(study, rows), "main")


def _draw_row(axes: Axes, study: StudySummary, row: _JudgedArm, y: int, limits: tuple[float, float]) -> None:
    factor, colour = study.format.factor, style_of(study.place(row.arm)).colour
    axes.vlines(0, y - 0.4, y + 0.16, color=MUTED, lw=0.8, zorder=0)  # no difference; it leaves out the labels above
    draw_interval(axes, (factor * row.interval[0], factor * row.interval[1]), limits, y, colour)
    axes.plot(factor * row.difference, y, "D", color=colour, mec=PAPER, ms=7, zorder=4)
    across = axes.get_yaxis_transform()
    axes.text(0, y + 0.18, formats.shortened(row.arm.name, 32), transform=across, ha="left", va="bottom")
    axes.text(1, y + 0.18, _said(study, row), transform=across, ha="right", va="bottom")


def _said(study: StudySummary, row: _JudgedArm) -> str:
    return f"{study.format.difference(row.difference)}, {row.verdict.word}"


def _text(study: StudySummary, rows: tuple[_JudgedArm, ...]) -> str:
    parts = [f"{row.arm.name} {_said(study, row)} ({study.format.interval(row.interval)})" for row in rows]
    return f"{study.format.label}, differences to {study.reference.name}: {'; '.join(parts)}."
