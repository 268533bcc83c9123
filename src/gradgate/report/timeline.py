"""What was open when: the plans of a study's runs, and their numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradgate.errors import RunError
from gradgate.report import formats
from gradgate.report.findings import Findings
from gradgate.report.plans import WrittenPlan, read_plan
from gradgate.report.tables import Column, Entry, Raw, Table
from gradgate.training.folder import RunFolder


@dataclass(frozen=True)
class MethodPlan:
    """The plan that one run of a method has followed."""

    method: str
    seed: int
    plan: WrittenPlan


def read_plans(findings: Findings) -> tuple[list[MethodPlan], list[str]]:
    """The plan of each method's first finished seed, and why some could not be read."""
    plans, problems = [], []
    for method in findings.scored:
        cell = method.finished[0]
        if cell.folder is None:
            continue
        try:
            plans.append(MethodPlan(method.name, cell.seed, read_plan(RunFolder(cell.folder).plan_file)))
        except RunError as error:
            problems.append(f"No timeline for {method.name}: {error}")
    return plans, problems


def timeline_table(plans: list[MethodPlan]) -> Table:
    """One row a group, the head first; one column a method: how much of it learned, and from which step on."""
    groups = list(dict.fromkeys(group for shown in plans for group in shown.plan.groups))
    learned = {shown.method: _learned(shown.plan) for shown in plans}
    found = {(name, group): learned[name].get(group, (None, None)) for name in learned for group in groups}
    titles = [(shown.method, f"mean over the steps of seed {shown.seed} (first step that learns)") for shown in plans]
    return Table(
        "timeline",
        "What was open when: share of each group that learned",
        (
            Column("group", "Group", numeric=False),
            *(Column(title, title, about) for title, about in titles),
        ),
        tuple(
            (Entry(group, place), *(_entry(*found[shown.method, group]) for shown in plans))
            for place, group in enumerate(reversed(groups))
        ),
        tuple(_record(shown, group, *found[shown.method, group]) for shown in plans for group in groups),
    )


def _learned(plan: WrittenPlan) -> dict[str, tuple[float | None, int | None]]:
    """Each group's mean share of elements that learned, and the first step, from 1, in which any did."""
    found: dict[str, tuple[float | None, int | None]] = {}
    for group, shares in zip(plan.groups, plan.shares(plan.steps), strict=True):
        learning = np.flatnonzero(shares)
        found[group] = float(shares.mean()), int(learning[0]) + 1 if len(learning) else None
    return found


def _entry(share: float | None, first: int | None) -> Entry:
    return Entry(formats.share(share), share, "" if first is None or first == 1 else f"(from step {first})")


def _record(shown: MethodPlan, group: str, share: float | None, first: int | None) -> dict[str, Raw]:
    return {
        "method": shown.method,
        "seed": shown.seed,
        "steps": shown.plan.steps,
        "group": group,
        "parameters": shown.plan.sizes.get(group),
        "mean_share": share,
        "first_step": first,
    }
