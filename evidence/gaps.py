"""Find how far arms were behind the best of their study, for ``gradgate recommend``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evidence.arms import MeasuredArm, grid_arms, is_too_short, study_arms
from evidence.grids import read_grids
from evidence.studies import read_studies
from gradgate.settings.arms.own_settings import TAPT_LENGTHS
from gradgate.settings.arms.recorded import recorded_arm
from gradgate.study.recommend.evidence import RecordedGap, family_of
from gradgate.tasks.find import find_task


def gaps() -> list[RecordedGap]:
    """Return a row per study and family of arms, in the order of the file."""
    return sorted(_gaps(), key=lambda row: (row.kind, row.source, row.gap))


def _gaps() -> Iterator[RecordedGap]:
    for study in read_studies():
        if study.is_committed and study.language_adapters is None:  # an adapter on another is none of the portfolio's
            for size, arms in study_arms(study).items():
                yield from _behind(f"{study.name} {size}".strip(), _kind(study.compare["task"]), arms)
    for grid in read_grids().values():
        if grid.curves.exists() and not is_too_short(grid):
            yield from _behind(f"grids/{grid.name}", _kind(grid.compare["task"]), grid_arms(grid))


def _kind(task: str | Sequence[str]) -> str:
    return find_task(task if isinstance(task, str) else task[0]).kind


def _behind(source: str, kind: str, arms: Sequence[MeasuredArm]) -> Iterator[RecordedGap]:
    own = [arm for arm in arms if not any(map(recorded_arm(arm.name).sets, TAPT_LENGTHS))]  # nor is pretraining
    best = max(arm.mean for arm in own)
    families: dict[str, float] = {}
    for arm in own:
        family = family_of(arm.name)
        families[family] = min(families.get(family, 1.0), best - arm.mean)
    if "full" not in families:  # adapters alone show nothing of how they compare with other arms
        return
    for family, gap in families.items():
        yield RecordedGap(source=source, kind=kind, family=family, gap=round(gap, 4))
