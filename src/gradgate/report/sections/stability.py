"""The table of mean against best: how much a method's dev score owes to keeping the best of many evaluations."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.report import formats
from gradgate.report.findings import Findings
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table, spread_entry
from gradgate.statistics import MeanAgainstBest, mean_against_best, summarize
from gradgate.study.results import Cell
from gradgate.training.records import comparable


@dataclass(frozen=True)
class StabilitySection(Section):
    """How much the best of many evaluations differs from their mean."""

    @classmethod
    def find(cls, findings: Findings) -> StabilitySection:
        """Its table may still be empty."""
        return cls(findings)

    def tables(self) -> list[Table]:
        """One row a method."""
        table = stability_table(self.findings)
        return [table] if table else []


def stability_table(findings: Findings) -> Table | None:
    """One row a method, over the dev evaluations of its finished runs; None if no run has two of them."""
    metric = findings.format
    groups = [
        (method, [run for cell in method.finished if (run := _run(findings, cell))]) for method in findings.methods
    ]
    if not any(runs for _, runs in groups):
        return None
    columns = (
        Column("method", "Method", numeric=False),
        Column("runs", "Runs", "finished ones with two evaluations or more, all of them finite, of those planned"),
        Column("evaluations", "Evaluations", "of a run"),
        Column(
            "mean", f"Mean, {metric.label}", "over all evaluations of a run; ± is the standard deviation over seeds"
        ),
        Column("best", f"Best, {metric.label}", "of all evaluations of a run"),
        Column("gap", "Best − mean", "how far the best is from the mean; small for a run that stays where it is"),
    )
    return Table(
        "evaluations",
        "Dev evaluations: mean against best",
        columns,
        tuple(
            (
                Entry(method.name, method.name),
                Entry(f"{len(runs)} of {len(method.cells)}", len(runs)),
                _counts(runs),
                *(spread_entry(values, metric) for values in _values(runs).values()),
            )
            for method, runs in groups
        ),
        tuple(_record(method.name, runs) for method, runs in groups),
    )


def _run(findings: Findings, cell: Cell) -> MeanAgainstBest | None:
    task = findings.results.study.task
    scores = [record.metrics[task.metric] for record in cell.history if task.metric in record.metrics]
    if len(scores) < 2 or not all(map(comparable, scores)):
        return None
    return mean_against_best(scores, task.metric_higher_is_better)


def _counts(runs: list[MeanAgainstBest]) -> Entry:
    counts = sorted({run.n for run in runs})
    text = formats.NONE if not counts else f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
    return Entry(text, counts[0] if counts else None)


def _values(runs: list[MeanAgainstBest]) -> dict[str, list[float]]:
    return {
        "mean": [run.mean for run in runs],
        "best": [run.best for run in runs],
        "gap": [run.gap for run in runs],
    }


def _record(name: str, runs: list[MeanAgainstBest]) -> dict[str, Raw]:
    record: dict[str, Raw] = {"method": name, "runs": len(runs), "evaluations": sum(run.n for run in runs)}
    for key, values in _values(runs).items():
        summary = summarize(values)
        record |= {key: summary.mean, f"{key}_sd": summary.sd}
    return record
