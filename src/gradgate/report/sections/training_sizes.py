"""Scores by the size of the training set, where a study has several (AdapterEff, Fig. 3).

He et al. 2021, Sec. 3.2: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from matplotlib.ticker import NullLocator

from gradgate.report.drawing import Drawing, finish, legend_below, styled, wrapped
from gradgate.report.findings import Findings
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.sections.losses import draw_means
from gradgate.report.table import Column, Entry, Table, spread_entry, spread_record
from gradgate.runs.records import TRAIN, comparable
from gradgate.study.results import StudyResults

NAME = "training-sizes"


@dataclass(frozen=True)
class SizeScores:
    """The scores of one method by rows of the training set, in ascending order: one value for each seed."""

    label: str
    scores: dict[int, tuple[float, ...]]

    def mean(self, size: int) -> float | None:
        """Over the seeds; None where none has finished."""
        found = self.scores.get(size)
        return fmean(found) if found else None


@dataclass(frozen=True)
class TrainingSizesSection(Section):
    """What each method makes of more examples."""

    methods: list[SizeScores]

    @classmethod
    def find(cls, findings: Findings) -> TrainingSizesSection | None:
        """None for a study of one size."""
        methods = find_sizes(findings)
        return cls(findings, methods) if any(len(method.scores) > 1 for method in methods) else None

    @property
    def sizes(self) -> list[int]:
        """Every size that has a score, in ascending order."""
        return sorted({size for method in self.methods for size in method.scores})

    def tables(self) -> list[Table]:
        """One row a method, one column a size."""
        return [size_table(self)]

    def drawings(self) -> list[Drawing]:
        """A line for each method."""
        return [draw_sizes(self)]


def find_sizes(findings: Findings) -> list[SizeScores]:
    """The scores of each method by size; with several tasks or models at each size, the mean over them."""
    by_size: dict[int | None, list[StudyResults]] = {}
    for _, part in findings.results.parts:
        by_size.setdefault(part.study.train_size, []).append(part)
    parts = {size or _all_rows(found): found for size, found in by_size.items()} if len(by_size) > 1 else {}
    methods = [
        SizeScores(method.name, {size: found for size in sorted(parts) if (found := _scores(parts[size], method.name))})
        for method in findings.methods
    ]
    return [method for method in methods if method.scores]


def _all_rows(parts: list[StudyResults]) -> int:
    """The size of whole training sets, the mean over tasks."""
    return round(fmean(part.study.task.rows.get(TRAIN, 0) for part in parts))


def _scores(parts: list[StudyResults], label: str) -> tuple[float, ...]:
    """Of the seeds that have finished on all of these parts."""
    found = [
        {cell.seed: score for cell in part.of(label) if comparable(score := cell.score(part.main_split))}
        for part in parts
    ]
    common = [seed for seed in found[0] if all(seed in scores for scores in found)]
    return tuple(fmean(scores[seed] for scores in found) for seed in common)


def size_table(section: TrainingSizesSection) -> Table:
    """One row a method, one column a size."""
    metric, sizes = section.findings.format, section.sizes
    return Table(
        NAME,
        f"Training sizes: {metric.label}",
        (
            Column("method", "Method", numeric=False),
            *(Column(str(size), f"{size:,}", "rows: mean ± standard deviation over seeds (runs)") for size in sizes),
        ),
        tuple(
            (Entry(method.label, method.label), *(_entry(section, method.scores.get(size, ())) for size in sizes))
            for method in section.methods
        ),
        tuple(
            {"method": method.label, "rows": size, "metric": metric.metric, **spread_record(list(scores))}
            for method in section.methods
            for size, scores in method.scores.items()
        ),
    )


def _entry(section: TrainingSizesSection, scores: tuple[float, ...]) -> Entry:
    if not scores:
        return Entry(NONE)
    shown = spread_entry(list(scores), section.findings.format)
    return Entry(shown.text, shown.value, f"({len(scores)})")


def draw_sizes(section: TrainingSizesSection) -> Drawing:
    """Rows to the right on a log scale, a line and a band for each method."""
    metric, sizes = section.findings.format, section.sizes
    places = [method.name for method in section.findings.methods]
    with styled(3.0 + 0.19 * len(section.methods)) as figure:
        axes = figure.add_subplot()
        for method in section.methods:
            draw_means(axes, method.scores, places.index(method.label), method.label, metric.factor)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="rows of the training set, log scale", ylabel=wrapped(metric.label))
        legend_below(figure)
        said = seen(section)
        caption = f"{said} Lines are means over the seeds, bands ± one standard deviation."
        return finish(figure, NAME, "Scores by training size", caption, f"{said} {_text(section)}", NAME)


def seen(section: TrainingSizesSection) -> str:
    """What more rows do to each method's distance from the first, in one sentence."""
    metric, (first, *others) = section.findings.format, section.methods
    common = [size for size in section.sizes if all(size in method.scores for method in section.methods)]
    if len(common) < 2:
        return "No two sizes have finished for every method yet."
    small, large = common[0], common[-1]
    if not others:
        return (
            f"{first.label} goes from {metric.value(first.mean(small))} with {small:,} rows to "
            f"{metric.value(first.mean(large))} with {large:,}."
        )
    gaps = [
        f"{method.label} {_gap(metric, method, first, small)} and {_gap(metric, method, first, large)}"
        for method in others
    ]
    return f"Differences to {first.label} with {small:,} and with {large:,} rows: {'; '.join(gaps)}."


def _gap(metric: ScoreFormat, method: SizeScores, first: SizeScores, size: int) -> str:
    return metric.difference(fmean(method.scores[size]) - fmean(first.scores[size]))


def _text(section: TrainingSizesSection) -> str:
    value = section.findings.format.value
    rows = [
        f"{method.label} " + ", ".join(f"{value(method.mean(size))} with {size:,}" for size in method.scores)
        for method in section.methods
    ]
    return f"Means by rows: {'; '.join(rows)}."
