"""What the report of a study consists of: the parts that it has data for, and their tables."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report.curves import Curve, curve_table, find_curves
from gradgate.report.findings import Findings
from gradgate.report.freeze_table import freeze_table
from gradgate.report.freezing import FreezeCurve, find_curve
from gradgate.report.gains import gain_table
from gradgate.report.main_table import main_table
from gradgate.report.rates import Rates, find_rates, rate_table
from gradgate.report.score_tables import metric_table, seed_table, split_table
from gradgate.report.stability_table import stability_table
from gradgate.report.statistics_table import statistics_tables
from gradgate.report.t_statistics import SplitTests, find_t, t_table
from gradgate.report.tables import Table
from gradgate.report.timeline import MethodPlan, read_plans, timeline_table


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
