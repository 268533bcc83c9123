"""The figures of a study, as SVG and PDF."""

from __future__ import annotations

from gradgate.report.contents import Contents
from gradgate.report.figures.curves import draw_curves
from gradgate.report.figures.freezing import draw_freezing
from gradgate.report.figures.gains import draw_gains
from gradgate.report.figures.rates import draw_rates
from gradgate.report.figures.scores import draw_cost, draw_scores
from gradgate.report.figures.style import Drawing
from gradgate.report.figures.t_statistics import draw_t
from gradgate.report.figures.timeline import draw_timeline

__all__ = ["Drawing", "draw_figures"]


def draw_figures(contents: Contents) -> list[Drawing]:
    """Every figure that the study has data for."""
    findings = contents.findings
    if not findings.scored:
        return []
    drawings = [
        draw_scores(findings),
        draw_gains(findings) if findings.results.averages else None,
        draw_t(findings, contents.t) if contents.t else None,
        draw_freezing(contents.freezing) if contents.freezing else None,
        draw_cost(findings),
        draw_curves(findings, contents.curves) if contents.curves else None,
        draw_rates(findings, contents.rates) if contents.rates else None,
        draw_timeline(contents.plans) if contents.plans else None,
    ]
    return [drawing for drawing in drawings if drawing]
