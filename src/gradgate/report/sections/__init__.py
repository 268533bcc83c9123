"""What the report of a study consists of: the parts that it has data for, and their tables."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.drawing import Drawing
from gradgate.report.findings import Findings
from gradgate.report.sections.curves import Curve, curve_table, draw_curves, find_curves
from gradgate.report.sections.every_score import metric_table, seed_table, split_table
from gradgate.report.sections.evidence import statistics_tables
from gradgate.report.sections.freezing import FreezeCurve, draw_freezing, find_curve, freeze_table
from gradgate.report.sections.gains import draw_gains, gain_table
from gradgate.report.sections.rates import Rates, draw_rates, find_rates, rate_table
from gradgate.report.sections.scores import draw_cost, draw_scores, main_table
from gradgate.report.sections.stability import stability_table
from gradgate.report.sections.t_statistics import SplitTests, draw_t, find_t, t_table
from gradgate.report.sections.timeline import MethodPlan, draw_timeline, read_plans, timeline_table
from gradgate.report.table import Table


@dataclass(frozen=True)
class Contents:
    """A study's findings and what else it can show; empty or None where it has no data for that.

    ``problems``: what could not be read, and why.
    """

    findings: Findings
    freezing: FreezeCurve | None
    t: list[SplitTests]
    rates: Rates | None
    curves: list[Curve]
    plans: list[MethodPlan]
    problems: list[str]


def gather(findings: Findings) -> Contents:
    """Everything that figures and tables are made of."""
    plans, problems = read_plans(findings)
    return Contents(
        findings,
        find_curve(findings),
        find_t(findings),
        find_rates(findings),
        find_curves(findings),
        plans,
        problems,
    )


def all_tables(contents: Contents) -> list[Table]:
    """Every table that the study has something for; the main one first."""
    findings = contents.findings
    several = len(findings.results.test_splits) > 1
    languages = bool(findings.results.averages)
    tables = [
        main_table(findings),
        gain_table(findings) if languages else None,
        split_table(findings) if several and not languages else None,
        freeze_table(contents.freezing) if contents.freezing else None,
        *statistics_tables(findings),
        t_table(findings, contents.t) if contents.t else None,
        rate_table(findings, contents.rates) if contents.rates else None,
        seed_table(findings),
        metric_table(findings) if findings.scored else None,
        stability_table(findings),
        curve_table(findings, contents.curves) if contents.curves else None,
        timeline_table(contents.plans) if contents.plans else None,
    ]
    return [table for table in tables if table]


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
