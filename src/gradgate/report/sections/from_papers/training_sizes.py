"""Show scores by the size of the training set, if a study has several (AdapterEff, Fig. 3).

He et al. 2021, Sec. 3.2: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from matplotlib.ticker import NullLocator

from gradgate.report.drawing import Drawing, finish, styled, wrapped
from gradgate.report.formats import ScoreFormat
from gradgate.report.names_in_figures import name_marks
from gradgate.report.pairing import UNPAIRED
from gradgate.report.sections.base import Section
from gradgate.report.sections.from_papers.losses import draw_means
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, spread_entry, spread_fields, text_column
from gradgate.runs.records import TRAIN
from gradgate.runs.scores import comparable
from gradgate.statistics import Summary, summarize
from gradgate.study.results import StudyResults

NAME = "training-sizes"


@dataclass(frozen=True)
class SizeScores:
    """The scores of one method by rows of the training set, in ascending order, and by seed."""

    label: str
    by_seed: dict[int, dict[int, float]]

    @cached_property
    def scores(self) -> dict[int, Summary]:
        """Size to the scores of all finished seeds."""
        return {size: summarize(tuple(found.values())) for size, found in self.by_seed.items()}

    def mean(self, size: int) -> float | None:
        """Return the mean over the seeds; None if none has finished."""
        found = self.scores.get(size)
        return found.mean if found else None


@dataclass(frozen=True)
class TrainingSizesSection(Section):
    """The score of each method by the number of training examples."""

    methods: list[SizeScores]

    @classmethod
    def find(cls, study: StudySummary) -> TrainingSizesSection | None:
        """Return None for a study of one size."""
        methods = find_sizes(study)
        return cls(study, methods) if any(len(method.scores) > 1 for method in methods) else None

    @property
    def sizes(self) -> list[int]:
        """Every size that has a score, in ascending order."""
        return sorted({size for method in self.methods for size in method.scores})

    def tables(self) -> list[Table]:
        """Return one row per method, one column per size."""
        return [size_table(self)]

    def drawings(self) -> list[Drawing]:
        """Draw a line for each method."""
        return [draw_sizes(self)]


def find_sizes(study: StudySummary) -> list[SizeScores]:
    """Return the scores of each method by size; with several tasks or models at each size, the mean over them."""
    by_size: dict[int | None, list[StudyResults]] = {}
    for _, part in study.results.parts:
        by_size.setdefault(part.study.train_size, []).append(part)
    parts = {size or _all_rows(found): found for size, found in by_size.items()} if len(by_size) > 1 else {}
    methods = [
        SizeScores(arm.name, {size: found for size in sorted(parts) if (found := _scores(parts[size], arm.name))})
        for arm in study.arms
    ]
    return [method for method in methods if method.scores]


def _all_rows(parts: list[StudyResults]) -> int:
    """Return the size of complete training sets, the mean over tasks."""
    return round(fmean(part.study.task.rows.get(TRAIN, 0) for part in parts))


def _scores(parts: list[StudyResults], label: str) -> dict[int, float]:
    """Return seed to score, for the seeds that have finished on all of these parts."""
    found = [
        {cell.seed: score for cell in part.of(label) if comparable(score := cell.score(part.main_split))}
        for part in parts
    ]
    common = [seed for seed in found[0] if all(seed in scores for scores in found)]
    return {seed: fmean(scores[seed] for scores in found) for seed in common}


def size_table(section: TrainingSizesSection) -> Table:
    """Return one row per method, one column per size."""
    metric = section.study.format
    measured = [(method, size) for method in section.methods for size in method.scores]
    fields: tuple[Column[tuple[SizeScores, int]], ...] = (
        Column("method", raw=lambda row: row[0].label),
        Column("rows", raw=lambda row: row[1]),
        Column("metric", raw=lambda row: metric.metric),
        *spread_fields(lambda row: row[0].scores[row[1]]),
    )
    columns = (
        text_column("method", "Method", of=lambda method: method.label),
        *(_size_column(size, metric) for size in section.sizes),
    )
    title = f"Training sizes: {metric.label}"
    return Table.of(NAME, title, section.methods, columns, records=records_of(measured, fields))


def _size_column(size: int, metric: ScoreFormat) -> Column[SizeScores]:
    def show(method: SizeScores) -> Entry:
        scores = method.scores.get(size)
        return replace(spread_entry(scores, metric), detail=f"({scores.n})" if scores else "")

    return Column(str(size), f"{size:,}", "rows: mean ± standard deviation over seeds (runs)", show=show)


def draw_sizes(section: TrainingSizesSection) -> Drawing:
    """Draw rows to the right on a log scale, a line and a band for each method."""
    metric, sizes = section.study.format, section.sizes
    places = [arm.name for arm in section.study.arms]
    with styled(3.0 + 0.19 * len(section.methods)) as figure:
        axes = figure.add_subplot()
        for method in section.methods:
            draw_means(
                axes,
                {size: found.values for size, found in method.scores.items()},
                places.index(method.label),
                method.label,
                metric.factor,
            )
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="rows of the training set, log scale", ylabel=wrapped(metric.label))
        name_marks(figure)
        said = caption(section)
        whole = f"{said} Lines are means over the seeds, bands ± one standard deviation."
        return finish(figure, NAME, "Scores by training size", whole, f"{said} {_text(section)}", NAME)


def caption(section: TrainingSizesSection) -> str:
    """Say what more rows do to each method's distance from the first, in one sentence."""
    metric, (first, *others) = section.study.format, section.methods
    common = [size for size in section.sizes if all(size in method.scores for method in section.methods)]
    if len(common) < 2:
        return "No two sizes are finished for every method yet."
    small, large = common[0], common[-1]
    if not others:
        return (
            f"{first.label} goes from {metric.value(first.mean(small))} with {small:,} rows to "
            f"{metric.value(first.mean(large))} with {large:,}."
        )
    gaps = [f"{method.label} {_gap(section, method, small)} and {_gap(section, method, large)}" for method in others]
    return f"Differences to {first.label} with {small:,} and with {large:,} rows: {'; '.join(gaps)}."


def _gap(section: TrainingSizesSection, method: SizeScores, size: int) -> str:
    """Return the difference to the first method over the seeds that both have, or over all if none is a pair."""
    ours, theirs = method.by_seed[size], section.methods[0].by_seed[size]
    if section.study.pairing is not UNPAIRED:
        common = [seed for seed in ours if seed in theirs]
        ours, theirs = ({seed: scores[seed] for seed in common} for scores in (ours, theirs))
    if not ours:
        return "has no seed in common"
    return section.study.format.difference(fmean(ours.values()) - fmean(theirs.values()))


def _text(section: TrainingSizesSection) -> str:
    value = section.study.format.value
    rows = [
        f"{method.label} " + ", ".join(f"{value(method.mean(size))} with {size:,}" for size in method.scores)
        for method in section.methods
    ]
    return f"Means by rows: {'; '.join(rows)}."
