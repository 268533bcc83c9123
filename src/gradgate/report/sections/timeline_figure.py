"""Draw what was open when, one band per method."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from gradgate.methods.phases import Phase
from gradgate.methods.timeline import Timeline
from gradgate.report.drawing import MUTED, Drawing, finish, styled
from gradgate.report.formats import shortened


@dataclass(frozen=True)
class MethodPlan:
    """The plan that one run of an arm has followed."""

    method: str
    seed: int
    plan: Timeline


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
    "From the embeddings at the bottom to the head at the top; the stronger the colour, the larger the share that was "
    "trained of the group's weights, or of the adapter's where one leaves the others frozen. One seed per method."
)


def draw_timeline(plans: list[MethodPlan]) -> Drawing:
    """Draw steps to the right, groups upwards from the embeddings to the head, blue while they learned.

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
        return finish(figure, "timeline", "What was trained when", _CAPTION, _text(plans), "timeline")


def _height(groups: int) -> float:
    """Return the inches of a band: room for the name of each group, if there are few."""
    every = groups / _LABELS_PER_INCH
    return max(0.75, every if every <= _HIGHEST else min(_HIGHEST, 0.07 * groups))


def _draw_band(axes: Axes, shown: MethodPlan, bottom: float, height: float) -> dict[float, str]:
    """Draw one plan and its title; return the place of each tick and its label."""
    plan = shown.plan.of_trainable()
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
    """Return colours of shape (groups * pixels, columns, 4), with a transparent line between groups."""
    colours: NDArray[np.float64] = np.repeat(_SHARES(shares), _ROW_PIXELS, axis=0)
    colours[_ROW_PIXELS - 1 :: _ROW_PIXELS, :, 3] = 0
    return colours


def _add_legend(figure: Figure) -> None:
    parts = ((0.0, "frozen"), (0.5, "half trained"), (1.0, "trained"))
    handles = [Patch(facecolor=_SHARES(share), label=label) for share, label in parts]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, handlelength=1.2, columnspacing=1.2)


def _text(plans: list[MethodPlan]) -> str:
    return f"{'; '.join(f'{shown.method} {_story(shown.plan)}' for shown in plans)}."


def _story(recorded: Timeline) -> str:
    plan = recorded.of_trainable()
    # Phases in which the same groups learn are one, such as one that only opens what an adapter leaves frozen.
    states = [
        next(same)
        for _, same in groupby(((phase.step + 1, *_state(plan, phase)) for phase in plan.phases), itemgetter(1, 2))
    ]
    counts = [len(learning) for _, learning, _ in states]
    of = f"of {len(plan.groups)} groups"
    if len(states) == 1:
        part = len(states[0][2])
        return f"trains {counts[0]} {of} throughout{f', {part} of them in part' if part else ''}"
    if counts == sorted(counts):
        return f"starts with {counts[0]} {of} and trains {counts[-1]} from step {states[-1][0]}"
    return f"changes {len(states) - 1} times and trains {min(counts)} to {max(counts)} {of}"


def _state(plan: Timeline, phase: Phase) -> tuple[frozenset[str], frozenset[str]]:
    """Return the groups of which anything learns in a phase, and those of them of which not all does."""
    learning = frozenset(name for name in (*phase.open, *phase.sparse) if plan.opens(name) > 0.0)
    return learning, frozenset(name for name in learning if name in phase.sparse or plan.opens(name) < 1.0)
