"""The tables of evidence: what every test says of each method, over seeds and over test splits, and what it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.errors import listed
from gradgate.report.pairing import UNPAIRED
from gradgate.report.sections.base import Section
from gradgate.report.sections.evidence_columns import (
    EvidenceRow,
    difference_columns,
    last_columns,
    lost_columns,
    needed_entry,
    score_columns,
    shown_of,
    test_columns,
    value_of,
)
from gradgate.report.split_tests import compare_over_splits
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, text_column
from gradgate.statistics import bootstrap_interval, weigh
from gradgate.study.results import COMBINATION, LANGUAGE, SIZE

_SHARED = {
    LANGUAGE: "; languages share their models, so the tests generalise to these languages, not to other seeds",
    COMBINATION: "; combinations share tasks and models, so they are not independent pairs",
    SIZE: "; training sizes share their rows, so they are not independent pairs",
}
_NEEDED = (
    "to detect an effect of the observed size at p < 0.05 with 80% power; with few seeds the "
    "observed size is uncertain, and so is this number"
)


@dataclass(frozen=True)
class EvidenceSection(Section):
    """Tests, intervals and effect sizes over seeds."""

    @classmethod
    def find(cls, study: StudySummary) -> EvidenceSection | None:
        """Return None if there is nothing to compare."""
        return cls(study) if len(study.arms) > 1 and study.scored else None

    def tables(self) -> list[Table]:
        """Return the tests over seeds."""
        return [seed_statistics(self.study)]


@dataclass(frozen=True)
class SplitEvidenceSection(Section):
    """The same over test splits."""

    @classmethod
    def find(cls, study: StudySummary) -> SplitEvidenceSection | None:
        """Return None if there is nothing to compare, or one test split."""
        comparable = len(study.arms) > 1 and study.scored and len(study.results.test_splits) > 1
        return cls(study) if comparable else None

    @property
    def on_page(self) -> bool:
        """Whether the section is shown by default: not if the splits are languages, which share their models."""
        return self.study.results.split_unit != LANGUAGE

    def tables(self) -> list[Table]:
        """Return the tests paired by test split."""
        return [split_statistics(self.study)]


def seed_statistics(study: StudySummary) -> Table:
    """Return one row per method: its score, its difference to the first, and every test of that."""
    evidence = weigh([arm.versus for arm in study.arms if arm.versus])
    rows = [
        EvidenceRow(arm, found, bootstrap_interval(arm.score.values))
        for arm, found in zip(study.arms, [None, *evidence], strict=True)
    ]
    columns = (
        text_column("method", "Method", of=lambda row: row.arm.name),
        Column("reference", raw=lambda row: study.reference.name),
        Column("planned", raw=lambda row: len(row.arm.cells)),
        *(lost_columns(study) if study.pairing is not UNPAIRED else ()),
        *score_columns(study),
        *difference_columns(study),
        *test_columns(),
        Column(
            "pairs_needed",
            "Seeds needed",
            _NEEDED,
            show=needed_entry,
            raw=value_of(lambda found: found.needed),
            field="pairs_needed",
        ),
        *last_columns(),
    )
    title = f"Statistics: differences to {study.reference.name}, {study.pairing.matched}"
    return Table.of("statistics", title, rows, columns, notes=_remarks(rows[1:]))


def split_statistics(study: StudySummary) -> Table:
    """Return the same with test splits as pairs, each with its mean over the seeds that both methods have."""
    splits, unit = study.results.test_splits, study.results.split_unit
    over = study.pairing.over if study.pairing is UNPAIRED else f"common {study.pairing.over}"
    evidence = weigh(compare_over_splits(study).tests)
    rows = [EvidenceRow(arm, found) for arm, found in zip(study.arms[1:], evidence, strict=True)]
    columns = (
        text_column("method", "Method", of=lambda row: row.arm.name),
        Column("reference", raw=lambda row: study.reference.name),
        Column("planned", raw=lambda row: len(splits)),
        Column(
            "pairs",
            f"{unit.capitalize()}s compared",
            f"a pair is two means over {over}{_SHARED.get(unit, '')}",
            show=shown_of(lambda found: Entry(f"{found.comparison.n} of {len(splits)}", found.comparison.n)),
        ),
        *difference_columns(study),
        *test_columns(),
        Column("pairs_needed", raw=value_of(lambda found: found.needed)),
        *last_columns(),
    )
    title = f"Statistics: differences to {study.reference.name}, paired by {unit}"
    return Table.of("statistics-splits", title, rows, columns, notes=_remarks(rows))


def _remarks(rows: Sequence[EvidenceRow]) -> tuple[str, ...]:
    """Return what the tests cannot say, each sentence once, with the methods that it is for unless it is for all."""
    methods = [row.arm.name for row in rows]
    said: dict[str, list[str]] = {}
    for row in rows:
        for remark in row.evidence.remarks if row.evidence else ():
            said.setdefault(remark, []).append(row.arm.name)
    return tuple(
        remark if names == methods else f"{listed(names)}: {remark[0].lower()}{remark[1:]}"
        for remark, names in said.items()
    )
