"""Order arms by how far they were behind the best in recorded studies of like tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

from gradgate.csv_rows import CsvRows
from gradgate.settings.arms.arm import split_arm

FILE = Path(__file__).with_name("gaps.csv")
_FEWEST = 3  # studies of a kind of task: one or two would say too little of the next one
_STAY = ("full", "probe", "head")
"""What people try first: never left out for lack of minutes."""


@dataclass(frozen=True, kw_only=True)
class RecordedGap:
    """The distance of a family's best arm from the best arm of its study.

    Attributes:
        source: the study.
        kind: of its task.
        family: of the arm: its method or adapter without options.
        gap: in the unit of the metric, a share of 1; the mean over seeds, 0 for the best arm.
    """

    source: str
    kind: str
    family: str
    gap: float


GAPS = CsvRows(RecordedGap, "python -m evidence pages")


def family_of(arm: str) -> str:
    """Return an arm without options: ``houlsby:size=64 + gradual:every=5`` is ``houlsby + gradual``."""
    parts = split_arm(arm)
    names = [text.partition(":")[0].strip() for text in (parts.adapter, parts.method) if text]
    return " + ".join(names)


def leaving_order(arms: Sequence[str], kind: str) -> tuple[str, ...]:
    """Return arms in the order in which they are left out if the minutes do not pay for all.

    The first is the one whose family was furthest behind in recorded studies of the same kind of task, or of any kind
    if there are fewer than three. A family without a record is in the middle. Full fine-tuning, the probe and the head
    stay.

    Args:
        arms: of a portfolio.
        kind: of the task.
    """
    gaps = mean_gaps(kind)
    middle = median(gaps.values()) if gaps else 0.0
    leaving = [arm for arm in arms if family_of(arm) not in _STAY]
    leaving.reverse()  # of equal arms the last leaves first, as a portfolio has its simplest ones in front
    return tuple(sorted(leaving, key=lambda arm: -gaps.get(family_of(arm), middle)))


def mean_gaps(kind: str) -> dict[str, float]:
    """Return family to its mean gap over the studies of one kind of task, or of all kinds if fewer than three were."""
    rows = [row for row in _recorded() if row.kind == kind]
    if len({row.source for row in rows}) < _FEWEST:
        rows = list(_recorded())
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.family, []).append(row.gap)
    return {family: fmean(gaps) for family, gaps in found.items()}


@cache
def _recorded() -> Sequence[RecordedGap]:
    return GAPS.read(FILE)
