"""Score against cost: what a method's training time buys."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_below, legend_label, look, styled, wrapped
from gradgate.report.findings import Findings
from gradgate.report.sections.base import Section


@dataclass(frozen=True)
class CostSection(Section):
    """The figure of scores over time per step; the numbers are in the main table."""

    @classmethod
    def find(cls, findings: Findings) -> CostSection | None:
        """None while no run has finished."""
        return cls(findings) if findings.scored else None

    def drawings(self) -> list[Drawing]:
        """Score against time per step."""
        return [draw_cost(self.findings)]


def draw_cost(findings: Findings) -> Drawing:
    """One point a method: training time against score, its size the share of the model that learned."""
    metric = findings.format
    with styled(2.9 + 0.19 * len(findings.scored)) as figure:
        axes = figure.add_subplot()
        longest = max(method.cost.seconds_per_step or 0.0 for method in findings.scored)
        factor, unit = (1e3, "ms") if longest < 1 else (1, "s")
        for method in findings.scored:
            style, share = look(findings.methods.index(method)), method.cost.trainable_share or 0.0
            mean = (method.score.mean or 0.0) * metric.factor
            x = (method.cost.seconds_per_step or 0.0) * factor
            spread = (method.score.sd or 0.0) * metric.factor
            axes.errorbar(x, mean, yerr=spread, color=style.colour, lw=1.2, zorder=2)
            area = 60 + 200 * share
            label = f"{legend_label(method.name, 34)} ({formats.share(share)})"
            axes.scatter(x, mean, s=area, c=style.colour, marker=style.marker, edgecolors=PAPER, label=label, zorder=3)
        axes.margins(0.12)
        axes.set_xlim(left=0)
        axes.set(xlabel=f"time per step ({unit})", ylabel=wrapped(f"{metric.label}, {findings.split_label}"))
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        legend = legend_below(figure)
        for handle in legend.legend_handles:
            handle.set_sizes([40])  # type: ignore[union-attr]
        caption = (
            "Marks are means, lines ± one standard deviation over the seeds. The larger the mark, the larger the share "
            "of parameters that learned (in brackets)."
        )
        return finish(figure, "cost", "Score against cost", caption, _cost_text(findings), "main")


def _cost_text(findings: Findings) -> str:
    parts = [
        f"{method.name} {findings.format.value(method.score.mean)} at {formats.seconds(method.cost.seconds_per_step)} "
        f"a step with {formats.share(method.cost.trainable_share)} of the parameters learning"
        for method in findings.scored
    ]
    return f"{'; '.join(parts)}."
