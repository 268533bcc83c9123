"""What was open when, one panel a method."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from gradgate.report.figures.style import Drawing, finish, styled
from gradgate.report.formats import shortened
from gradgate.report.plans import WrittenPlan
from gradgate.report.timeline import MethodPlan

# Transparent to opaque instead of white to blue: closed groups then fade into light and dark pages alike.
_BLUE = "#0072b2"
_SHARES = LinearSegmentedColormap.from_list("share", [to_rgba(_BLUE, 0.10), to_rgba(_BLUE, 1.0)])
# More columns than a panel has dots on a screen would only make the file larger.
_COLUMNS = 800
_ROW_PIXELS = 6
_LABELS_PER_INCH = 5.4
_CAPTION = (
    "Groups run from the embeddings at the bottom to the head at the top; the darker, the larger the share of a "
    "group's elements that learned. One seed is shown for each method."
)


def draw_timeline(plans: list[MethodPlan]) -> Drawing:
    """Steps to the right, groups upwards from the embeddings to the head, blue where they learned.

    Args:
        plans: one run for each panel; at least one.
    """
    heights = [min(1.3, max(0.75, 0.07 * len(shown.plan.groups))) for shown in plans]
    longest = max(shown.plan.steps for shown in plans)
    with styled(0.85 + sum(heights) + 0.34 * len(plans)) as figure:
        panels = figure.subplots(len(plans), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for axes, height, shown in zip(panels, heights, plans, strict=True):
            _draw_panel(axes, shown.plan, labels=int(height * _LABELS_PER_INCH))
            axes.set_title(f"{shortened(shown.method, 30)} (seed {shown.seed})", loc="left", pad=3)
        panels[-1].set(xlabel="optimizer steps", xlim=(0, longest))
        panels[-1].xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        _add_legend(figure)
        return finish(figure, "timeline", "What was open when", _CAPTION, _text(plans), "timeline")


def _draw_panel(axes: Axes, plan: WrittenPlan, labels: int) -> None:
    groups = len(plan.groups)
    axes.imshow(
        _picture(plan.shares(_COLUMNS)),
        extent=(0, plan.steps, 0, groups),
        origin="lower",
        aspect="auto",
        interpolation="none",
    )
    shown = sorted({round(place) for place in np.linspace(0, groups - 1, min(groups, labels))})
    axes.set_yticks([row + 0.5 for row in shown], [shortened(plan.groups[row], 18) for row in shown], fontsize=9)
    axes.tick_params(axis="y", length=0, pad=2)
    axes.spines["left"].set_visible(False)


def _picture(shares: NDArray[np.float32]) -> NDArray[np.float64]:
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


def _story(plan: WrittenPlan) -> str:
    states = [(frozenset(phase.open), frozenset(phase.sparse)) for phase in plan.phases]
    counts = [len(whole | part) for whole, part in states]
    of = f"of {len(plan.groups)} groups"
    if len(set(states)) == 1:
        part = len(states[0][1])
        return f"keeps {counts[0]} {of} open throughout{f', {part} of them in part' if part else ''}"
    if counts == sorted(counts):
        return f"starts with {counts[0]} {of} open and has {counts[-1]} open from step {plan.phases[-1].step}"
    return f"changes {len(states) - 1} times, with {min(counts)} to {max(counts)} {of} open"
