"""Compare mean and best: what a dev score owes to choosing the best of many evaluations (AdapterEff, Table 6).

He et al. 2021, Sec. 5: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, style_of, styled
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Table, spread_entry, text_column
from gradgate.runs.scores import comparable
from gradgate.statistics import MeanAgainstBest, Summary, mean_against_best, summarize
from gradgate.study.run_result import RunResult

NAME, TITLE = "evaluations", "Dev evaluations: mean against best"


@dataclass(frozen=True)
class Evaluations:
    """The runs of one method that have two finite evaluations on dev or more."""

    arm: ArmSummary
    runs: list[MeanAgainstBest]

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """Mean, best and the gap between them, over the runs."""
        return {key: summarize([getattr(run, key) for run in self.runs]) for key in ("mean", "best", "gap")}

    def mean(self, key: str) -> float:
        """Return the mean of one of these."""
        return self.summaries[key].mean or 0.0


@dataclass(frozen=True)
class StabilitySection(Section):
    """The difference between the best of many evaluations and their mean."""

    evaluations: list[Evaluations]

    @classmethod
    def find(cls, study: StudySummary) -> StabilitySection | None:
        """Return None unless a run has several evaluations."""
        evaluations = find_evaluations(study)
        return cls(study, evaluations) if evaluations else None

    @property
    def on_page(self) -> bool:
        """Whether the section is shown by default: never, as the main table has what the runs are compared by."""
        return False

    def tables(self) -> list[Table]:
        """Return one row per method."""
        table = stability_table(self.study)
        return [table] if table else []

    def drawings(self) -> list[Drawing]:
        """Draw a line from mean to best for each method."""
        return [draw_stability(self)]


def find_evaluations(study: StudySummary) -> list[Evaluations]:
    """Return one for each arm; none if no run has several evaluations."""
    found = [Evaluations(arm, [run for cell in arm.finished if (run := _run(study, cell))]) for arm in study.arms]
    return found if any(evaluations.runs for evaluations in found) else []


def _run(study: StudySummary, cell: RunResult) -> MeanAgainstBest | None:
    task = study.record.task
    scores = [record.metrics[task.metric] for record in cell.history if task.metric in record.metrics]
    if len(scores) < 2 or not all(map(comparable, scores)):
        return None
    return mean_against_best(scores, task.metric_higher_is_better)


def stability_table(study: StudySummary) -> Table | None:
    """Return one row per method, over the dev evaluations of its finished runs; None if no run has two of them."""
    methods = find_evaluations(study)
    columns = (
        text_column("method", "Method", of=lambda found: found.arm.name),
        Column(
            "runs",
            "Runs",
            "finished runs with at least two evaluations, all finite, of those planned",
            show=lambda found: f"{len(found.runs)} of {len(found.arm.cells)}",
            raw=lambda found: len(found.runs),
        ),
        Column(
            "evaluations", "Evaluations", "of a run", show=_counts, raw=lambda found: sum(run.n for run in found.runs)
        ),
        *_value_columns(study, "mean", "Mean", "over all evaluations of a run; ± is the standard deviation over seeds"),
        *_value_columns(study, "best", "Best", "of all evaluations of a run"),
        *_value_columns(study, "gap", "Best − mean", "distance of the best from the mean; small for a steady run"),
    )
    return Table.of(NAME, TITLE, methods, columns) if methods else None


def _value_columns(study: StudySummary, key: str, title: str, about: str) -> tuple[Column[Evaluations], ...]:
    unit = "" if key == "gap" else f", {study.format.label}"
    return (
        Column(
            key,
            f"{title}{unit}",
            about,
            show=lambda found: spread_entry(found.summaries[key], study.format),
            raw=lambda found: found.summaries[key].mean,
        ),
        Column(f"{key}_sd", raw=lambda found: found.summaries[key].sd),
    )


def _counts(found: Evaluations) -> Entry:
    counts = sorted({run.n for run in found.runs})
    text = formats.NONE if not counts else f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
    return Entry(text, counts[0] if counts else None)


def draw_stability(section: StabilitySection) -> Drawing:
    """Draw one line per arm, from the mean of its evaluations to the best."""
    study, shown = section.study, [found for found in section.evaluations if found.runs]
    with styled(0.9 + 0.3 * len(shown)) as figure:
        axes = figure.add_subplot()
        for row, found in enumerate(shown):
            style = style_of(study.place(found.arm))
            ends = [study.format.factor * found.mean(key) for key in ("mean", "best")]
            axes.plot(ends, [-row, -row], color=style.colour, lw=2)
            axes.plot(ends[:1], [-row], "o", color=PAPER, mec=style.colour, ms=7, zorder=3)
            axes.plot(ends[1:], [-row], "o", color=style.colour, ms=7, zorder=3)
        names = [formats.shortened(found.arm.name, 28) for found in shown]
        axes.set_yticks([-row for row in range(len(shown))], names)
        axes.set_xlabel(formats.shortened(f"dev {study.format.label}", 52))
        axes.grid(axis="x", color=MUTED, alpha=0.2, lw=0.6)
        axes.margins(y=0.5 / len(shown))
        said = caption(section)
        whole = (
            f"{said} Lines run from the mean over all evaluations of a run (hollow) to the best one (filled); "
            "both are means over the seeds."
        )
        return finish(figure, NAME, TITLE, whole, f"{said} {_text(section)}", NAME)


def caption(section: StabilitySection) -> str:
    """Say which arm stays closest to its best, in one sentence."""
    ranked = sorted((found for found in section.evaluations if found.runs), key=lambda found: found.mean("gap"))
    gap = section.study.format.value
    steadiest, least = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"The best evaluation of {steadiest.arm.name} is {gap(steadiest.mean('gap'))} from the mean of all."
    return (
        f"The best evaluation is closest to the mean of all with {steadiest.arm.name} "
        f"({gap(steadiest.mean('gap'))}) and farthest with {least.arm.name} ({gap(least.mean('gap'))})."
    )


def _text(section: StabilitySection) -> str:
    value = section.study.format.value
    parts = [
        f"{found.arm.name} {value(found.mean('mean'))} and {value(found.mean('best'))}"
        for found in section.evaluations
        if found.runs
    ]
    return f"Mean and best: {'; '.join(parts)}."
