"""The tables of scores on every test split, and of every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from gradgate.report.formats import ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, spread_entry, spread_fields, text_column
from gradgate.runs.records import DEV
from gradgate.statistics import Summary, summarize
from gradgate.tasks.languages import average_label

LONGEST = 10
"""Rows up to which the page shows a table of raw numbers; a longer one is a file."""


@dataclass(frozen=True)
class SplitsSection(Section):
    """The scores on each test split."""

    @classmethod
    def find(cls, study: StudySummary) -> SplitsSection | None:
        """Return None with one test split; languages, tasks and models have their own table."""
        return cls(study) if len(study.results.test_splits) > 1 and not study.results.averages else None

    def tables(self) -> list[Table]:
        """Return the scores by test split."""
        return [split_table(self.study)]


@dataclass(frozen=True)
class MetricsSection(Section):
    """The values of all metrics."""

    @classmethod
    def find(cls, study: StudySummary) -> MetricsSection | None:
        """Return None while no run has finished."""
        return cls(study) if study.scored else None

    @property
    def on_page(self) -> bool:
        """Whether methods and splits are few."""
        return len(_shown_groups(self.study)) <= LONGEST

    def tables(self) -> list[Table]:
        """Return one row per method and split."""
        return [metric_table(self.study)]


@dataclass(frozen=True)
class _Scores:
    """One method on one split, or the mean of the splits; one value per seed."""

    arm: ArmSummary
    split: str
    values: Summary


def split_table(study: StudySummary) -> Table:
    """Return one row per method, one column per test split, and their average for seeds that have all of them."""
    splits, metric = study.results.test_splits, study.format
    scores = {(arm.name, split): arm.on(split) for arm in study.arms for split in splits}
    scores |= {(arm.name, "average"): summarize(_averages(arm, splits)) for arm in study.arms}
    shown = {**dict.fromkeys(splits, ""), "average": "over the splits, for seeds that have all of them"}
    columns = (
        text_column("method", "Method", of=lambda arm: arm.name),
        *(_mean_column(split, scores, metric, about) for split, about in shown.items()),
    )
    fields: tuple[Column[_Scores], ...] = (
        Column("method", raw=lambda row: row.arm.name),
        Column("split", raw=lambda row: row.split),
        Column("metric", raw=lambda row: metric.metric),
        *spread_fields(lambda row: row.values),
    )
    records = records_of(
        [_Scores(arm, split, scores[arm.name, split]) for arm in study.arms for split in shown], fields
    )
    table = Table.of("splits", f"Test splits: {metric.label}", study.arms, columns, records=records)
    return table.ranked(shown, study.higher_is_better) if study.has_same_seeds else table


def _averages(arm: ArmSummary, splits: Sequence[str]) -> list[float]:
    by_split = [arm.scores(split) for split in splits]
    return [
        fmean(scores[cell.seed] for scores in by_split)
        for cell in arm.finished
        if all(cell.seed in s for s in by_split)
    ]


def _mean_column(
    split: str, scores: Mapping[tuple[str, str], Summary], metric: ScoreFormat, about: str
) -> Column[ArmSummary]:
    title = split.capitalize() if about else split
    return Column(split, title, about, show=lambda arm: spread_entry(scores[arm.name, split], metric))


def metric_table(study: StudySummary) -> Table:
    """Return one row per method and split, one column per metric, whatever the runs measured."""
    groups = _groups(study)
    names = list(dict.fromkeys(n for arm, split in groups for cell in arm.finished for n in cell.metrics(split)))
    fields: tuple[Column[tuple[ArmSummary, str, str]], ...] = (
        Column("method", raw=lambda row: row[0].name),
        Column("split", raw=lambda row: row[1]),
        Column("metric", raw=lambda row: row[2]),
        *spread_fields(lambda row: row[0].on(row[1], row[2])),
    )
    columns = (
        text_column("method", "Method", of=lambda group: group[0].name),
        Column("split", "Split", numeric=False, show=lambda group: Entry(average_label(group[1]), group[1])),
        *(_metric_column(study, name) for name in names),
    )
    records = records_of([(arm, split, name) for arm, split in groups for name in names], fields)
    return Table.of("metrics", "All metrics", _shown_groups(study), columns, records=records)


def _groups(study: StudySummary) -> list[tuple[ArmSummary, str]]:
    """Return each arm with each average and split."""
    splits = dict.fromkeys((*study.results.averages, *study.results.test_splits, DEV))
    return [(arm, split) for arm in study.scored for split in splits]


def _shown_groups(study: StudySummary) -> list[tuple[ArmSummary, str]]:
    """Return those that are shown: without test splits that an average stands for."""
    left_out = study.results.test_splits if study.results.averages else ()
    return [group for group in _groups(study) if group[1] not in left_out]


def _metric_column(study: StudySummary, name: str) -> Column[tuple[ArmSummary, str]]:
    form = study.format if name == study.format.metric else ScoreFormat.fitting(name)
    return Column(name, form.label, show=lambda group: spread_entry(group[0].on(group[1], name), form))
