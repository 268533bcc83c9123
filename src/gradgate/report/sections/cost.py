"""Draw score against cost: what a method's training time buys."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_label, style_of, styled, wrapped
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import StudySummary


@dataclass(frozen=True)
class CostSection(Section):
    """The figure of scores over time per step; the numbers are in the main table."""

    @classmethod
    def find(cls, study: StudySummary) -> CostSection | None:
        """Return None while no run has finished, and if no time is known."""
        return cls(study) if any(arm.cost.seconds_per_step for arm in study.scored) else None

    def drawings(self) -> list[Drawing]:
        """Draw score against time per step."""
        return [draw_cost(self.study)]


def draw_cost(study: StudySummary) -> Drawing:
    """Draw one point per arm: training time against score, its size the share of the model that learned."""
    metric = study.format
    with styled(2.9 + 0.19 * len(study.scored)) as figure:
        axes = figure.add_subplot()
        longest = max(arm.cost.seconds_per_step or 0.0 for arm in study.scored)
        factor, unit = (1e3, "ms") if longest < 1 else (1, "s")
        for arm in study.scored:
            style, share = style_of(study.place(arm)), arm.cost.trainable_share or 0.0
            mean = (arm.score.mean or 0.0) * metric.factor
            x = (arm.cost.seconds_per_step or 0.0) * factor
            spread = (arm.score.sd or 0.0) * metric.factor
            axes.errorbar(x, mean, yerr=spread, color=style.colour, lw=1.2, zorder=2)
            area = 60 + 200 * share
            label = f"{legend_label(arm.name, 34)} ({formats.share(share)})"
            axes.scatter(x, mean, s=area, c=style.colour, marker=style.marker, edgecolors=PAPER, label=label, zorder=3)
        axes.margins(0.12)
        axes.set_xlim(left=0)
        axes.set(xlabel=f"time per step ({unit})", ylabel=wrapped(f"{metric.label}, {study.split_label}"))
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        caption = (
            "Marks are means, lines ± one standard deviation; the mark's size is the share of the parameters "
            "that were trained (in brackets)."
        )
        return finish(figure, "cost", "Score against cost", caption, _cost_text(study), "main")


def _cost_text(study: StudySummary) -> str:
    parts = [
        f"{arm.name} {study.format.value(arm.score.mean)} at {formats.seconds(arm.cost.seconds_per_step)} per "
        f"step with {formats.share(arm.cost.trainable_share)} of the parameters trained"
        for arm in study.scored
    ]
    return f"{'; '.join(parts)}."
