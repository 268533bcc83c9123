"""A study of several languages, tasks or models: each method's score on each, averages, gains on the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradgate.report.drawing import Drawing
from gradgate.report.sections.base import Section
from gradgate.report.sections.gains_figure import draw_gains, gains_name
from gradgate.report.split_tests import best_over_parts
from gradgate.report.splits import shown_splits, split_name, split_unit
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import (
    Column,
    Entry,
    Raw,
    Table,
    ranked,
    records_of,
    significance,
    spread_entry,
    star_note,
    text_column,
)
from gradgate.statistics import holm

_MEAN = "mean ± standard deviation over seeds"


@dataclass(frozen=True)
class GainsSection(Section):
    """Scores in each language, or on each task or model."""

    @classmethod
    def find(cls, study: StudySummary) -> GainsSection | None:
        """Return None for a study of one task in one language."""
        return cls(study) if study.results.averages else None

    def tables(self) -> list[Table]:
        """Return one row per language, task or model; nothing if no arm has a score on all of them."""
        return [gain_table(self.study)] if self.study.scored else []

    def drawings(self) -> list[Drawing]:
        """Draw the gains on the first method."""
        drawing = draw_gains(self.study) if self.study.scored else None
        return [drawing] if drawing else []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the table of tasks and models; languages are too many for a terminal."""
        if not self.study.results.parts or not self.study.scored:
            return []
        table = gain_table(self.study)
        return [(table, tuple(column.key for column in table.columns))]

    def remarks(self) -> list[str]:
        """Say how the best method fares over tasks or models."""
        remark = best_over_parts(self.study)
        return [remark] if remark else []


Place = tuple[str, ArmSummary]
"""A split and an arm."""


def gain_table(study: StudySummary) -> Table:
    """Return one row per language (task, model), the averages first; one column per method with its gain as heat."""
    unit, splits = split_unit(study).capitalize(), shown_splits(study)
    compared = [(split, arm.name) for split in splits for arm in study.arms[1:]]
    tests = [study.gain(arm, split).versus.p for split in splits for arm in study.arms[1:]]
    corrected = dict(zip(compared, holm(tests), strict=True))
    gains = [study.gain(arm, split).difference for split in splits for arm in study.arms[1:]]
    most = max((abs(gain) for gain in gains if gain is not None), default=0.0)
    columns = (
        text_column("unit", unit, of=lambda split: split_name(study, split)),
        *(_arm_column(study, arm, corrected, most) for arm in study.arms),
    )
    records = records_of([(split, arm) for arm in study.arms for split in splits], _fields(study))
    notes = [*star_note(list(corrected.values()), f"{study.pairing.full_test}, Holm-corrected over this table")]
    if most:
        notes.append(f"Blue: better than {study.reference.name}; orange: worse.")
    title = f"{unit}s: {study.format.label}"
    table = Table.of(gains_name(study), title, splits, columns, records=records, notes=notes)
    if not study.has_same_seeds:
        return table
    rows = tuple((name, *ranked(scores, study.higher_is_better)) for name, *scores in table.rows)
    return replace(table, rows=rows)


def _arm_column(
    study: StudySummary, arm: ArmSummary, corrected: dict[tuple[str, str], float | None], most: float
) -> Column[str]:
    """Return the column of an arm; the largest gain or loss of the table, ``most``, has the strongest colour."""
    is_first, sign = arm is study.reference, 1 if study.higher_is_better else -1
    against = "" if is_first else f" (mean difference to {study.reference.name}, {study.pairing.matched})"

    def show(split: str) -> Entry:
        gain = study.gain(arm, split)
        if gain.score.mean is None or is_first or gain.difference is None:
            return spread_entry(gain.score, study.format)
        stars = significance(corrected[split, arm.name])
        return replace(
            spread_entry(gain.score, study.format),
            detail=f"({study.format.difference(gain.difference)}{stars})",
            heat=sign * gain.difference / most if most else None,
        )

    return Column(f"method {study.place(arm)}", arm.name, _MEAN + against, show=show)


def _fields(study: StudySummary) -> tuple[Column[Place], ...]:
    """Return what is exported of a method on a split."""
    results = study.results

    def single(place: Place) -> Raw:
        return None if place[0] in results.averages else results.language(place[0])

    return (
        Column("method", raw=lambda place: place[1].name),
        Column("split", raw=lambda place: place[0]),
        Column(results.split_unit.replace(" ", "_") if results.parts else "language", raw=single),
        Column("metric", raw=lambda place: study.format.metric),
        Column("n", raw=lambda place: study.gain(place[1], place[0]).score.n),
        Column("mean", raw=lambda place: study.gain(place[1], place[0]).score.mean),
        Column("sd", raw=lambda place: study.gain(place[1], place[0]).score.sd),
        Column("reference", raw=lambda place: study.reference.name),
        Column("difference", raw=lambda place: study.gain(place[1], place[0]).difference),
        Column("relative_difference", raw=lambda place: study.gain(place[1], place[0]).relative),
        Column("t", raw=lambda place: study.gain(place[1], place[0]).versus.t),
        Column("p", raw=lambda place: study.gain(place[1], place[0]).versus.p),
    )
