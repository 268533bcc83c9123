"""What was open when: the plans of a study's runs, and their numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from gradgate.errors import RunError
from gradgate.methods.plan_file import read_timeline
from gradgate.methods.timeline import Timeline
from gradgate.report import formats
from gradgate.report.drawing import MUTED, Drawing, finish, styled
from gradgate.report.findings import Findings
from gradgate.report.formats import shortened
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table
from gradgate.runs.folder import RunFolder


@dataclass(frozen=True)
class MethodPlan:
    """The plan that one run of a method has followed."""

    method: str
    seed: int
    plan: Timeline


@dataclass(frozen=True)
class TimelineSection(Section):
    """What each method trained when."""

    plans: list[MethodPlan]
    problems: list[str]

    @classmethod
    def find(cls, findings: Findings) -> TimelineSection | None:
        """None without a plan, or the reason why one could not be read."""
        plans, problems = read_plans(findings)
        return cls(findings, plans, problems) if plans or problems else None

    def tables(self) -> list[Table]:
        """One row a layer; and one row a unit where a method opens parts or modules of layers."""
        if not self.plans:
            return []
        by_unit = any(len(shown.plan.layers) < len(shown.plan.groups) for shown in self.plans)
        return [timeline_table(self.plans), *([unit_table(self.plans)] if by_unit else [])]

    def drawings(self) -> list[Drawing]:
        """One band a method."""
        return [draw_timeline(self.plans)] if self.plans else []

    def cautions(self) -> list[str]:
        """The plans that could not be read."""
        return self.problems


def read_plans(findings: Findings) -> tuple[list[MethodPlan], list[str]]:
    """The plan of each method's first finished seed, and why some could not be read."""
    plans, problems = [], []
    for method in findings.scored:
        cell = method.finished[0]
        if cell.folder is None:
            continue
        try:
            plans.append(MethodPlan(method.name, cell.seed, read_timeline(RunFolder(cell.folder).plan_file)))
        except RunError as error:
            problems.append(f"No timeline for {method.name}: {error}")
    return plans, problems


def timeline_table(plans: list[MethodPlan]) -> Table:
    """One row a layer, the head first; one column a method: how much of it learned, and from which step on."""
    groups = list(dict.fromkeys(layer for shown in plans for layer in shown.plan.layers))
    title = "What was open when: share of each group that learned"
    return _table("timeline", title, plans, groups, {shown.method: _learned_by_layer(shown.plan) for shown in plans})


def unit_table(plans: list[MethodPlan]) -> Table:
    """The same with one row for each part or module that a method opens and closes."""
    finer = [shown for shown in plans if len(shown.plan.layers) < len(shown.plan.groups)]
    groups = list(dict.fromkeys(group for shown in finer for group in shown.plan.groups))
    title = "What was open when, inside the layers: share of each part or module that learned"
    return _table("timeline-units", title, finer, groups, {shown.method: _learned(shown.plan) for shown in finer})


def _table(name: str, title: str, plans: list[MethodPlan], groups: list[str], learned: dict[str, Learned]) -> Table:
    found = {(name, group): learned[name].get(group, (None, None)) for name in learned for group in groups}
    titles = [(shown.method, f"mean over the steps of seed {shown.seed} (first step that learns)") for shown in plans]
    return Table(
        name,
        title,
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


Learned = dict[str, tuple[float | None, int | None]]


def _learned(plan: Timeline) -> Learned:
    """Each group's mean share of elements that learned, and the first step, from 1, in which any did."""
    first = plan.first_steps()
    return {group: (mean, first[group] + 1 if group in first else None) for group, mean in plan.mean_shares().items()}


def _learned_by_layer(plan: Timeline) -> Learned:
    """The same for whole layers: a layer learns from the step on in which the first of its units does."""
    of_units = _learned(plan)
    means = plan.folded(plan.shares_between([0, plan.steps]))[:, 0].tolist()
    found: Learned = {}
    for (layer, places), mean in zip(plan.layers.items(), means, strict=True):
        steps = [step for place in places if (step := of_units[plan.groups[place]][1]) is not None]
        found[layer] = (mean, min(steps, default=None))
    return found


def _entry(share: float | None, first: int | None) -> Entry:
    return Entry(formats.share(share), share, "" if first is None or first == 1 else f"(from step {first})")


def _record(shown: MethodPlan, group: str, share: float | None, first: int | None) -> dict[str, Raw]:
    return {
        "method": shown.method,
        "seed": shown.seed,
        "steps": shown.plan.steps,
        "group": group,
        "parameters": (shown.plan.layer_sizes | shown.plan.sizes).get(group),
        "mean_share": share,
        "first_step": first,
    }


# Transparent to opaque instead of white to blue: closed groups then fade into light and dark pages alike.
_BLUE = "#0072b2"
_SHARES = LinearSegmentedColormap.from_list("share", [to_rgba(_BLUE, 0.10), to_rgba(_BLUE, 1.0)])
# More columns than a panel has dots on a screen would only make the file larger.
_COLUMNS = 800
_ROW_PIXELS = 6
_LABELS_PER_INCH = 5.4
_HIGHEST = 1.3  # inches of a band
_TITLE = 0.34  # inches above a band
_CAPTION = (
    "Groups run from the embeddings at the bottom to the head at the top; the darker, the larger the share of a "
    "group's elements that learned. One seed is shown for each method."
)


def draw_timeline(plans: list[MethodPlan]) -> Drawing:
    """Steps to the right, groups upwards from the embeddings to the head, blue where they learned.

    All bands are in one coordinate system, upwards in inches: matplotlib takes a second for each one more.

    Args:
        plans: one run for each band; at least one.
    """
    heights = [_height(len(shown.plan.layers)) for shown in plans]
    longest = max(shown.plan.steps for shown in plans)
    with styled(0.85 + sum(heights) + _TITLE * len(plans)) as figure:
        axes = figure.add_subplot()
        top = 0.0
        ticks: dict[float, str] = {}
        for height, shown in zip(heights, plans, strict=True):
            top -= _TITLE + height
            ticks |= _draw_band(axes, shown, top, height)
        axes.set(xlabel="optimizer steps", xlim=(0, longest), ylim=(top, 0))
        axes.set_yticks(list(ticks), list(ticks.values()), fontsize=9)
        axes.tick_params(axis="y", length=0, pad=2)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        _add_legend(figure)
        return finish(figure, "timeline", "What was open when", _CAPTION, _text(plans), "timeline")


def _height(groups: int) -> float:
    """Inches of a band: room for the name of each group, if there are few."""
    every = groups / _LABELS_PER_INCH
    return max(0.75, every if every <= _HIGHEST else min(_HIGHEST, 0.07 * groups))


def _draw_band(axes: Axes, shown: MethodPlan, bottom: float, height: float) -> dict[float, str]:
    """Draw one plan and its title; returns the place of each tick and its label."""
    plan = shown.plan
    names = list(plan.layers)
    groups, labels = len(names), int(height * _LABELS_PER_INCH + 1e-9)
    axes.imshow(
        _picture(plan.folded(plan.shares(_COLUMNS))),
        extent=(0, plan.steps, bottom, bottom + height),
        origin="lower",
        aspect="auto",
        interpolation="none",
    )
    title = f"{shortened(shown.method, 30)} (seed {shown.seed})"
    axes.text(0, bottom + height + 0.05, title, ha="left", va="bottom")
    axes.plot([0, plan.steps], [bottom, bottom], color=MUTED, lw=0.8, clip_on=False)
    rows = sorted({round(place) for place in np.linspace(0, groups - 1, min(groups, labels))})
    return {bottom + (row + 0.5) / groups * height: shortened(names[row], 18) for row in rows}


def _picture(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours of shape (groups * pixels, columns, 4), with a transparent line between groups."""
    colours: NDArray[np.float64] = np.repeat(_SHARES(shares), _ROW_PIXELS, axis=0)
    colours[_ROW_PIXELS - 1 :: _ROW_PIXELS, :, 3] = 0
    return colours


def _add_legend(figure: Figure) -> None:
    parts = ((0.0, "closed"), (0.5, "half learns"), (1.0, "open"))
    handles = [Patch(facecolor=_SHARES(share), label=label) for share, label in parts]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, handlelength=1.2, columnspacing=1.2)


def _text(plans: list[MethodPlan]) -> str:
    return f"{'; '.join(f'{shown.method} {_story(shown.plan)}' for shown in plans)}."


def _story(plan: Timeline) -> str:
    states = [(frozenset(phase.open), frozenset(phase.sparse)) for phase in plan.phases]
    counts = [len(whole | part) for whole, part in states]
    of = f"of {len(plan.groups)} groups"
    if len(set(states)) == 1:
        part = len(states[0][1])
        return f"keeps {counts[0]} {of} open throughout{f', {part} of them in part' if part else ''}"
    if counts == sorted(counts):
        return f"starts with {counts[0]} {of} open and has {counts[-1]} open from step {plan.phases[-1].step}"
    return f"changes {len(states) - 1} times, with {min(counts)} to {max(counts)} {of} open"
