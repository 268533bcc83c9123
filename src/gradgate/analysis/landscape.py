"""Read the loss around the weights of a study's runs: on a line to the pretrained ones, and on a plane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from gradgate.analysis.folder import AnalysisFolder
from gradgate.runs.records import DEV
from gradgate.settings.arms.recorded import ArmName

NAME = "landscape"
Where = Literal["line", "plane"]
LINE: Final = "line"
PLANE: Final = "plane"
RISE = 0.5
"""How far the loss may rise above that of the tuned weights within their minimum."""


@dataclass(frozen=True, kw_only=True)
class LandscapeRow:
    """The mean loss at one point.

    Attributes:
        arm, seed: of the run.
        run: its mark, see :class:`gradgate.study.run_result.RunResult`.
        where: on the line or on the plane.
        split, rows: whose loss, and over how many of its rows.
        x: on the line the share of the way, 0 where the run began, with the random head that it began with, and 1 at
            its tuned weights; on the plane how much of the first direction is added to the tuned weights.
        y: how much of the second direction; None on the line.
        loss: None if it is not finite.
        distance: the length of the line's way from 0 to 1 in weights; None on the plane.
    """

    arm: ArmName
    seed: int
    run: str
    where: Where
    split: str
    rows: int
    x: float
    y: float | None
    loss: float | None
    distance: float | None


@dataclass(frozen=True)
class Flatness:
    """The width of a minimum on the line.

    Attributes:
        width: of the interval around the tuned weights in which the loss is at most ``RISE`` above theirs.
        at_least: whether the interval reaches an end of what was measured, so that it may be wider.
    """

    width: float
    at_least: bool


def landscape_folder(path: Path) -> AnalysisFolder[LandscapeRow]:
    """Return the folder of this analysis at ``path``."""
    return AnalysisFolder(path, NAME, LandscapeRow)


def lines(rows: Iterable[LandscapeRow], arm: str, split: str) -> dict[int, list[tuple[float, float | None]]]:
    """Return seed to the losses of its run on the line: pairs of ``x`` and loss, in order."""
    found: dict[int, list[tuple[float, float | None]]] = {}
    for row in rows:
        if (row.arm, row.split, row.where) == (arm, split, LINE):
            found.setdefault(row.seed, []).append((row.x, row.loss))
    return {seed: sorted(points, key=lambda point: point[0]) for seed, points in sorted(found.items())}


def flatness(points: Sequence[tuple[float, float | None]]) -> Flatness | None:
    """Return the width of the minimum around the tuned weights, on the line that He et al. 2021 draw in Fig. 6.

    The paper names no number. This one is the length of the interval around 1 in which ``loss(x) <= loss(1) + 0.5``,
    with straight lines between the points. The unit is the way that the run itself went.

    Args:
        points: ``x`` and loss, in the order of ``x``; 1 is among them.

    Returns:
        None without a finite loss at 1.
    """
    tuned = dict(points).get(1.0)
    if tuned is None:
        return None
    level = tuned + RISE
    up = _reach([point for point in points if point[0] >= 1], level)
    down = _reach([point for point in reversed(points) if point[0] <= 1], level)
    return Flatness(up[0] - down[0], up[1] or down[1])


def _reach(points: Sequence[tuple[float, float | None]], level: float) -> tuple[float, bool]:
    """Return where the loss first rises above the level, and whether it never does."""
    for (x, loss), (beyond, above) in pairwise(points):
        assert loss is not None
        if above is None:
            return x, False
        if above > level:
            return x + (beyond - x) * (level - loss) / (above - loss), False
    return points[-1][0], True


def flatness_of(rows: Sequence[LandscapeRow], arm: str, split: str = DEV) -> list[Flatness]:
    """Return the flatness of each run of an arm."""
    found = (flatness(points) for points in lines(rows, arm, split).values())
    return [flat for flat in found if flat is not None]


def caption(rows: Sequence[LandscapeRow]) -> str:
    """Say what the lines show, in one sentence."""
    widths = {arm: flat for arm in dict.fromkeys(row.arm for row in rows) if (flat := flatness_of(rows, arm))}
    if not widths:
        return "No run has a finite loss at its trained weights on dev, so no minimum has a width."
    open_ended = [arm for arm, found in widths.items() if any(flat.at_least for flat in found)]
    if open_ended and len(widths) > 1:
        others = f" and {len(open_ended) - 1} more" if len(open_ended) > 1 else ""
        return (
            f"On dev, the loss of {open_ended[0]}{others} stays within {RISE} of that at the trained weights up to an "
            "end of the line: such widths are lower bounds, and the arms are not ranked."
        )
    ranked = sorted(widths, key=lambda arm: -fmean(flat.width for flat in widths[arm]))
    widest, narrowest = ranked[0], ranked[-1]
    if widest == narrowest:
        return f"The minimum of {widest} is {width_text(widths[widest])} of its own way wide on dev."
    if width_text(widths[widest]) == width_text(widths[narrowest]):
        return f"All minima are {width_text(widths[widest])} of the runs' own ways wide on dev."
    return (
        f"Measured in each run's own way, the minimum on dev is widest for {widest} ({width_text(widths[widest])}) and "
        f"narrowest for {narrowest} ({width_text(widths[narrowest])})."
    )


def width_text(found: Sequence[Flatness]) -> str:
    """Return the mean width, with ``at least`` if the interval of a run may be wider."""
    bound = "at least " if any(flat.at_least for flat in found) else ""
    return f"{bound}{fmean(flat.width for flat in found):.2f}"
