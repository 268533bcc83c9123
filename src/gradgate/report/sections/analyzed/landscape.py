"""Show the loss around the weights that each run found, if it was analyzed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradgate.analysis.landscape import NAME, RISE, Flatness, LandscapeRow, flatness_of, width_text
from gradgate.report import formats
from gradgate.report.drawing import Drawing
from gradgate.report.formats import NONE
from gradgate.report.sections.analyzed.landscape_figures import SPLITS, draw_landscape, mean_at
from gradgate.report.sections.base import AnalyzedSection
from gradgate.report.table import Column, Entry, Table, spread_fields, text_column
from gradgate.statistics import Summary, summarize


@dataclass(frozen=True)
class LandscapeSection(AnalyzedSection[LandscapeRow]):
    """The losses that ``gradgate analyze landscape`` has measured."""

    analysis = NAME
    row = LandscapeRow

    def tables(self) -> list[Table]:
        """Return one row per arm."""
        return [flatness_table(self.rows)] if self.rows else []

    def drawings(self) -> list[Drawing]:
        """Draw the lines and the planes."""
        return draw_landscape(self.rows, self.study.record.arm_names)


@dataclass(frozen=True)
class _Minimum:
    """The minimum of one arm.

    Attributes:
        found: the flatness of each run.
        width: over the runs.
        distance: the mean way from the weights before to those after; None without a line.
        ends: mean losses by ``SPLIT_X``: at 0, before, and at 1, tuned.
    """

    arm: str
    found: list[Flatness]
    width: Summary
    distance: float | None
    ends: dict[str, float | None]

    @classmethod
    def of(cls, rows: Sequence[LandscapeRow], arm: str) -> _Minimum:
        found = flatness_of(rows, arm)
        ways = [row.distance for row in rows if row.arm == arm and row.distance is not None]
        ends = {f"{split}_{x}": mean_at(rows, arm, split, float(x)) for split in SPLITS for x in (0, 1)}
        width = summarize([flat.width for flat in found])
        return cls(arm, found, width, float(np.mean(ways)) if ways else None, ends)


def flatness_table(rows: Sequence[LandscapeRow]) -> Table:
    """Return the width of each arm's minimum, and the losses at the ends of its way."""
    columns = (
        text_column("method", "Method", of=lambda row: row.arm),
        Column("measure", raw=lambda row: "flatness"),
        Column(
            "flatness",
            "Flatness",
            f"width of the interval around the tuned weights with a dev loss at most {RISE} above theirs",
            show=_flatness,
        ),
        *spread_fields(lambda row: row.width),
        Column("at_least", raw=lambda row: sum(flat.at_least for flat in row.found)),
        Column(
            "distance",
            "Way",
            "Euclidean distance between the weights before and after training",
            show=lambda row: formats.decimal(row.distance),
            raw=lambda row: row.distance,
        ),
        *(_loss_column(split, x) for split in SPLITS for x in (0, 1)),
    )
    arms = dict.fromkeys(row.arm for row in rows)
    return Table.of(NAME, "Loss around the tuned weights", [_Minimum.of(rows, arm) for arm in arms], columns)


def _flatness(row: _Minimum) -> Entry:
    return Entry(width_text(row.found).replace("at least ", "≥ ") if row.found else NONE, row.width.mean)


def _loss_column(split: str, x: int) -> Column[_Minimum]:
    key, name = f"{split}_{x}", ("before", "tuned")[x]
    return Column(
        key,
        f"Loss, {split}, {name}",
        "mean over seeds, on a sample of rows",
        show=lambda row: formats.decimal(row.ends[key]),
        raw=lambda row: row.ends[key],
    )
