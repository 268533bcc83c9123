"""The tables of scores: every run, every test split, every metric."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from gradgate.report import formats
from gradgate.report.findings import Findings
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table, ranked, spread_entry, spread_record
from gradgate.runs.records import DEV, comparable
from gradgate.study.results import RunResult
from gradgate.tasks.languages import average_label

_COSTS = (
    "steps",
    "seconds_per_step",
    "seconds_total",
    "trainable_share",
    "parameters",
    "parameters_trained",
    "device",
    "peak_memory_bytes",
    "bytes_stored",
)


@dataclass(frozen=True)
class EveryScoreSection(Section):
    """All scores of all runs."""

    @classmethod
    def find(cls, findings: Findings) -> EveryScoreSection:
        """Every study has it."""
        return cls(findings)

    def tables(self) -> list[Table]:
        """By test split (languages, tasks and models have a table of their own), by run, and by metric."""
        results = self.findings.results
        tables = [split_table(self.findings)] if len(results.test_splits) > 1 and not results.averages else []
        tables.append(seed_table(self.findings))
        return [*tables, metric_table(self.findings)] if self.findings.scored else tables


def seed_table(findings: Findings) -> Table:
    """One row a run, finished or not: the numbers that all others are made of."""
    results, metric = findings.results, findings.format
    splits = tuple(dict.fromkeys((findings.split, *results.averages, *results.test_splits, DEV)))
    # The table by language has the means; forty columns more would hide the rest.
    shown = tuple(split for split in splits if not results.averages or split not in results.test_splits)
    columns = (
        Column("method", "Method", numeric=False),
        Column("seed", "Seed"),
        Column("status", "Status", numeric=False),
        *(Column(split, f"{metric.label}, {average_label(split)}") for split in shown),
        Column("best_step", "Best step", "the step whose checkpoint scored best on dev"),
        Column("step", "Time per step"),
        Column("total", "Training time"),
        Column("memory", "Peak memory"),
    )
    cells = [cell for method in findings.methods for cell in method.cells]
    return Table(
        "seeds",
        "Every run",
        columns,
        tuple(_seed_row(cell, shown, metric) for cell in cells),
        tuple(_seed_record(cell, splits) for cell in cells),
    )


def _seed_row(cell: RunResult, splits: tuple[str, ...], metric: ScoreFormat) -> tuple[Entry, ...]:
    cost = cell.scores.cost if cell.scores else None
    best_step = cell.scores.best_step if cell.scores else None
    step, total, memory = (
        (cost.seconds_per_step, cost.seconds_total, cost.peak_memory_bytes) if cost else (None, None, None)
    )
    return (
        Entry(cell.arm.name, cell.arm.name),
        Entry(str(cell.seed), cell.seed),
        Entry(_state(cell), cell.state.value),
        *(Entry(metric.value(cell.score(split)), cell.score(split)) for split in splits),
        Entry(NONE if best_step is None else str(best_step), best_step),
        Entry(formats.seconds(step), step),
        Entry(formats.seconds(total), total),
        Entry(formats.size(memory), memory),
    )


def _state(cell: RunResult) -> str:
    if cell.paused is not None:
        return f"paused at {cell.paused}"
    return "not finished" if cell.state == "missing" else cell.state


def _seed_record(cell: RunResult, splits: tuple[str, ...]) -> dict[str, Raw]:
    cost = cell.scores.cost if cell.scores else None
    return {
        "method": cell.arm.name,
        "seed": cell.seed,
        "status": cell.state.value,
        **{f"{split}_score": cell.score(split) for split in splits},
        "best_step": cell.scores.best_step if cell.scores else None,
        **{name: getattr(cost, name, None) for name in _COSTS},
        "error": f"{cell.failure.type}: {cell.failure.message}" if cell.failure else None,
    }


def split_table(findings: Findings) -> Table:
    """One row a method, one column a test split, and their average where a seed has all of them."""
    splits, metric = findings.results.test_splits, findings.format
    groups: list[tuple[str, dict[str, list[float]]]] = []
    for method in findings.methods:
        scores = {split: [s for c in method.finished if (s := c.score(split)) is not None] for split in splits}
        by_seed = [[s for split in splits if (s := c.score(split)) is not None] for c in method.finished]
        scores["average"] = [fmean(row) for row in by_seed if len(row) == len(splits)]
        groups.append((method.name, scores))
    columns = [Column("method", "Method", numeric=False), *(Column(split, split) for split in splits)]
    return Table(
        "splits",
        f"Test splits: {metric.label}",
        (*columns, Column("average", "Average", "of the splits, for seeds that have all of them")),
        tuple(zip((Entry(name, name) for name, _ in groups), *_ranked_columns(findings, groups), strict=True)),
        tuple(
            {"method": name, "split": split, "metric": metric.metric, **spread_record(values)}
            for name, scores in groups
            for split, values in scores.items()
        ),
    )


def _ranked_columns(findings: Findings, groups: list[tuple[str, dict[str, list[float]]]]) -> list[list[Entry]]:
    higher = findings.results.study.task.metric_higher_is_better
    return [
        ranked([spread_entry(scores[split], findings.format) for _, scores in groups], higher) for split in groups[0][1]
    ]


def metric_table(findings: Findings) -> Table:
    """One row a method and split, one column a metric, whatever the runs measured."""
    results = findings.results
    splits = tuple(dict.fromkeys((*results.averages, *results.test_splits, DEV)))
    groups = [(method, split) for method in findings.scored for split in splits]
    shown = [group for group in groups if not results.averages or group[1] not in results.test_splits]
    names = list(dict.fromkeys(n for m, split in groups for cell in m.finished for n in cell.metrics(split)))
    values = {
        (method.name, split, name): [
            value for cell in method.finished if comparable(value := cell.metrics(split).get(name))
        ]
        for method, split in groups
        for name in names
    }
    metrics = [findings.format if name == findings.format.metric else ScoreFormat.fitting(name) for name in names]
    return Table(
        "metrics",
        "All metrics",
        (
            Column("method", "Method", numeric=False),
            Column("split", "Split", numeric=False),
            *(Column(metric.metric, metric.label) for metric in metrics),
        ),
        tuple(
            (
                Entry(method.name, method.name),
                Entry(average_label(split), split),
                *(spread_entry(values[method.name, split, m.metric], m) for m in metrics),
            )
            for method, split in shown
        ),
        tuple(
            {"method": method.name, "split": split, "metric": name, **spread_record(values[method.name, split, name])}
            for method, split in groups
            for name in names
        ),
    )
