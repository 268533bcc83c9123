"""Mean against best: how much a method's dev score owes to keeping the best of many evaluations (AdapterEff, Table 6).

He et al. 2021, Sec. 5: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, look, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table, spread_entry
from gradgate.runs.records import comparable
from gradgate.statistics import MeanAgainstBest, mean_against_best, summarize
from gradgate.study.results import RunResult

NAME = "evaluations"


@dataclass(frozen=True)
class Evaluations:
    """The runs of one method that have two finite evaluations on dev or more."""

    method: MethodFindings
    runs: list[MeanAgainstBest]

    @property
    def values(self) -> dict[str, list[float]]:
        """Mean, best and the gap between them, of each run."""
        return {
            "mean": [run.mean for run in self.runs],
            "best": [run.best for run in self.runs],
            "gap": [run.gap for run in self.runs],
        }

    def mean(self, key: str) -> float:
        """One of these, the mean over the runs."""
        return fmean(self.values[key])


@dataclass(frozen=True)
class StabilitySection(Section):
    """How much the best of many evaluations differs from their mean."""

    methods: list[Evaluations]

    @classmethod
    def find(cls, findings: Findings) -> StabilitySection | None:
        """None unless a run has several evaluations."""
        methods = find_evaluations(findings)
        return cls(findings, methods) if methods else None

    def tables(self) -> list[Table]:
        """One row a method."""
        table = stability_table(self.findings)
        return [table] if table else []

    def drawings(self) -> list[Drawing]:
        """A line from mean to best for each method."""
        return [draw_stability(self)]


def find_evaluations(findings: Findings) -> list[Evaluations]:
    """One for each method; none if no run has several evaluations."""
    found = [
        Evaluations(method, [run for cell in method.finished if (run := _run(findings, cell))])
        for method in findings.methods
    ]
    return found if any(evaluations.runs for evaluations in found) else []


def _run(findings: Findings, cell: RunResult) -> MeanAgainstBest | None:
    task = findings.results.study.task
    scores = [record.metrics[task.metric] for record in cell.history if task.metric in record.metrics]
    if len(scores) < 2 or not all(map(comparable, scores)):
        return None
    return mean_against_best(scores, task.metric_higher_is_better)


def stability_table(findings: Findings) -> Table | None:
    """One row a method, over the dev evaluations of its finished runs; None if no run has two of them."""
    metric, methods = findings.format, find_evaluations(findings)
    if not methods:
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
        NAME,
        "Dev evaluations: mean against best",
        columns,
        tuple(
            (
                Entry(found.method.name, found.method.name),
                Entry(f"{len(found.runs)} of {len(found.method.cells)}", len(found.runs)),
                _counts(found.runs),
                *(spread_entry(values, metric) for values in found.values.values()),
            )
            for found in methods
        ),
        tuple(_record(found) for found in methods),
    )


def _counts(runs: list[MeanAgainstBest]) -> Entry:
    counts = sorted({run.n for run in runs})
    text = formats.NONE if not counts else f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
    return Entry(text, counts[0] if counts else None)


def _record(found: Evaluations) -> dict[str, Raw]:
    runs = found.runs
    record: dict[str, Raw] = {"method": found.method.name, "runs": len(runs), "evaluations": sum(run.n for run in runs)}
    for key, values in found.values.items():
        summary = summarize(values)
        record |= {key: summary.mean, f"{key}_sd": summary.sd}
    return record


def draw_stability(section: StabilitySection) -> Drawing:
    """One line a method, from the mean of its evaluations to the best."""
    findings, shown = section.findings, [found for found in section.methods if found.runs]
    with styled(0.9 + 0.3 * len(shown)) as figure:
        axes = figure.add_subplot()
        for row, found in enumerate(shown):
            style = look(findings.methods.index(found.method))
            ends = [findings.format.factor * found.mean(key) for key in ("mean", "best")]
            axes.plot(ends, [-row, -row], color=style.colour, lw=2)
            axes.plot(ends[:1], [-row], "o", color=PAPER, mec=style.colour, ms=7, zorder=3)
            axes.plot(ends[1:], [-row], "o", color=style.colour, ms=7, zorder=3)
        names = [formats.shortened(found.method.name, 28) for found in shown]
        axes.set_yticks([-row for row in range(len(shown))], names)
        axes.set_xlabel(formats.shortened(f"dev {findings.format.label}", 52))
        axes.grid(axis="x", color=MUTED, alpha=0.2, lw=0.6)
        axes.margins(y=0.5 / len(shown))
        caption = (
            f"{seen(section)} From the mean over all evaluations of a run (hollow) to the best of them (filled); means "
            f"over the seeds."
        )
        return finish(
            figure, NAME, "Dev evaluations: mean against best", caption, f"{seen(section)} {_text(section)}", NAME
        )


def seen(section: StabilitySection) -> str:
    """Which method stays closest to its best, in one sentence."""
    ranked = sorted((found for found in section.methods if found.runs), key=lambda found: found.mean("gap"))
    gap = section.findings.format.value
    steadiest, least = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"The best evaluation of {steadiest.method.name} is {gap(steadiest.mean('gap'))} from the mean of all."
    return (
        f"The best evaluation is closest to the mean of all with {steadiest.method.name} "
        f"({gap(steadiest.mean('gap'))}) and farthest with {least.method.name} ({gap(least.mean('gap'))})."
    )


def _text(section: StabilitySection) -> str:
    value = section.findings.format.value
    parts = [
        f"{found.method.name} {value(found.mean('mean'))} and {value(found.mean('best'))}"
        for found in section.methods
        if found.runs
    ]
    return f"Mean and best: {'; '.join(parts)}."
