"""The figures of a study, as SVG."""

from __future__ import annotations

from gradgate.errors import RunError
from gradgate.report.figures.curves import draw_curves
from gradgate.report.figures.freezing import draw_freezing
from gradgate.report.figures.languages import draw_languages
from gradgate.report.figures.scores import draw_cost, draw_scores
from gradgate.report.figures.style import Drawing
from gradgate.report.figures.timeline import draw_timeline
from gradgate.report.findings import Findings
from gradgate.report.freezing import FreezeCurve
from gradgate.report.plans import WrittenPlan, read_plan
from gradgate.training.folder import RunFolder

__all__ = ["Drawing", "draw_figures"]


def draw_figures(findings: Findings, curve: FreezeCurve | None = None) -> tuple[list[Drawing], list[str]]:
    """Every figure that the study has data for, and what could not be drawn and why."""
    if not findings.scored:
        return [], []
    plans, problems = _read_plans(findings)
    frozen = draw_freezing(curve) if curve else None
    languages = draw_languages(findings) if findings.results.averages else None
    drawings = [draw_scores(findings), languages, frozen, draw_cost(findings), draw_curves(findings)]
    if plans:
        drawings.append(draw_timeline(plans))
    return [drawing for drawing in drawings if drawing], problems


def _read_plans(findings: Findings) -> tuple[list[tuple[str, int, WrittenPlan]], list[str]]:
    """The plan of each method's first finished seed."""
    plans, problems = [], []
    for method in findings.scored:
        cell = method.finished[0]
        if cell.folder is None:
            continue
        try:
            plans.append((method.name, cell.seed, read_plan(RunFolder(cell.folder).plan_file)))
        except RunError as error:
            problems.append(f"No timeline for {method.name}: {error}")
    return plans, problems
