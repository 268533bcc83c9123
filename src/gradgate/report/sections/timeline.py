"""Show what was open when: the plans of a study's runs, and their numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.errors import RunError
from gradgate.methods.plan_file import read_timeline
from gradgate.methods.timeline import Timeline
from gradgate.report import formats
from gradgate.report.drawing import Drawing
from gradgate.report.sections.base import Section
from gradgate.report.sections.timeline_figure import MethodPlan, draw_timeline
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, records_of
from gradgate.runs.folder import RunFolder


@dataclass(frozen=True)
class TimelineSection(Section):
    """The layers that each method trained at each step."""

    plans: list[MethodPlan]
    problems: list[str]

    @classmethod
    def find(cls, study: StudySummary) -> TimelineSection | None:
        """Return None without a plan and without one that could not be read."""
        plans, problems = read_plans(study)
        return cls(study, plans, problems) if plans or problems else None

    def tables(self) -> list[Table]:
        """Return one row per layer; and one row per unit if a method opens parts or modules of layers."""
        if not self.plans:
            return []
        by_unit = any(len(shown.plan.layers) < len(shown.plan.groups) for shown in self.plans)
        return [timeline_table(self.plans), *([unit_table(self.plans)] if by_unit else [])]

    def drawings(self) -> list[Drawing]:
        """Draw one band per method."""
        return [draw_timeline(self.plans)] if self.plans else []

    def cautions(self) -> list[str]:
        """Return the plans that could not be read."""
        return self.problems


def read_plans(study: StudySummary) -> tuple[list[MethodPlan], list[str]]:
    """Return the plan of each arm's first finished seed, and why some could not be read."""
    plans, problems = [], []
    for method in study.scored:
        cell = method.finished[0]
        if cell.folder is None:
            continue
        try:
            plans.append(MethodPlan(method.name, cell.seed, read_timeline(RunFolder(cell.folder).plan_file)))
        except RunError as error:
            problems.append(f"No timeline for {method.name}: {error}")
    return plans, problems


def timeline_table(plans: list[MethodPlan]) -> Table:
    """Return one row per layer, the head first; one column per method: how much learned, and from which step."""
    groups = list(dict.fromkeys(layer for shown in plans for layer in shown.plan.layers))
    title = "What was trained when: share of each group that learned"
    return _table("timeline", title, plans, groups, {shown.method: _learned_by_layer(shown.plan) for shown in plans})


def unit_table(plans: list[MethodPlan]) -> Table:
    """Return the same with one row per part or module that a method opens and closes."""
    finer = [shown for shown in plans if len(shown.plan.layers) < len(shown.plan.groups)]
    groups = list(dict.fromkeys(group for shown in finer for group in shown.plan.groups))
    title = "What was trained when, within the layers: share of each part or module that learned"
    return _table("timeline-units", title, finer, groups, {shown.method: _learned(shown.plan) for shown in finer})


def _table(name: str, title: str, plans: list[MethodPlan], groups: list[str], learned: dict[str, Learned]) -> Table:
    bottom = {group: place for place, group in enumerate(reversed(groups))}
    fields: tuple[Column[tuple[MethodPlan, str]], ...] = (
        Column("method", raw=lambda row: row[0].method),
        Column("seed", raw=lambda row: row[0].seed),
        Column("steps", raw=lambda row: row[0].plan.steps),
        Column("group", raw=lambda row: row[1]),
        Column("parameters", raw=lambda row: (row[0].plan.layer_sizes | row[0].plan.sizes).get(row[1])),
        Column("mean_share", raw=lambda row: _of(learned, *row)[0]),
        Column("first_step", raw=lambda row: _of(learned, *row)[1]),
    )
    columns: tuple[Column[str], ...] = (
        Column("group", "Group", numeric=False, show=lambda group: Entry(group, bottom[group])),
        *(_plan_column(shown, learned) for shown in plans),
    )
    records = records_of([(shown, group) for shown in plans for group in groups], fields)
    return Table.of(name, title, list(bottom), columns, records=records)


def _plan_column(shown: MethodPlan, learned: dict[str, Learned]) -> Column[str]:
    def show(group: str) -> Entry:
        share, first = _of(learned, shown, group)
        return Entry(formats.share(share), share, "" if first is None or first == 1 else f"(from step {first})")

    about = f"mean over the steps of seed {shown.seed} (first step that trains it)"
    return Column(shown.method, shown.method, about, show=show)


def _of(learned: dict[str, Learned], shown: MethodPlan, group: str) -> tuple[float | None, int | None]:
    return learned[shown.method].get(group, (None, None))


Learned = dict[str, tuple[float | None, int | None]]


def _learned(plan: Timeline) -> Learned:
    """Return each group's mean share of elements that learned, and the first step, from 1, in which any did."""
    first = plan.first_steps()
    return {group: (mean, first[group] + 1 if group in first else None) for group, mean in plan.mean_shares().items()}


def _learned_by_layer(plan: Timeline) -> Learned:
    """Return the same for layers: a layer learns from the step on in which the first of its units does."""
    of_units = _learned(plan)
    means = plan.folded(plan.shares_between([0, plan.steps]))[:, 0].tolist()
    found: Learned = {}
    for (layer, places), mean in zip(plan.layers.items(), means, strict=True):
        steps = [step for place in places if (step := of_units[plan.groups[place]][1]) is not None]
        found[layer] = (mean, min(steps, default=None))
    return found
