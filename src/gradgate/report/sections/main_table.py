"""The main table: one row per method with its score, its difference to the first one and its costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gradgate.report import formats
from gradgate.report.cost_summary import ratio
from gradgate.report.formats import NONE
from gradgate.report.sections.forgetting import forgetting_columns
from gradgate.report.sections.run_links import run_links
from gradgate.report.sections.scores_figure import score_limits
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import (
    Column,
    Entry,
    IntervalBar,
    Table,
    interval_fields,
    records_of,
    significance,
    spread_entry,
    star_note,
)
from gradgate.runs.records import DEV
from gradgate.statistics import Comparison

MAIN = "main"
"""The name of the table."""

_BRACKETS = "In brackets: 95% intervals of the differences, corrected for the number of methods as p is."

_COSTS = {
    "step": "seconds_per_step",
    "memory": "peak_memory_bytes",
    "total": "seconds_total",
    "share": "trainable_share",
    "parameters": "parameters_trained",
    "stored": "bytes_stored",
}
"""Columns of costs, which an imported study may know nothing of."""


def main_table(study: StudySummary) -> Table:
    """Return one row per method: score, difference to the first method with its evidence, and costs.

    Arms of a race that have no whole run are left out.
    """
    arms = study.scored if study.is_race else study.arms
    columns = (
        Column(
            "method",
            "Method",
            numeric=False,
            show=lambda arm: Entry(arm.name, arm.name, links=run_links(study, arm)),
            raw=lambda arm: arm.name,
        ),
        *_score_columns(study),
        *_difference_columns(study),
        *forgetting_columns(study),
        *_evidence_columns(study),
        *_dev_columns(study),
        *_cost_columns(study),
        Column("note", raw=_note),
    )
    table = Table.of(
        MAIN,
        f"Methods on {study.record.task.name}",
        arms,
        columns,
        hidden=_unused(study),
        records=records_of(study.arms, columns),
        best=[arms.index(arm) for arm in study.best],
        notes=(
            *_interval_notes(arms),
            *star_note([arm.p for arm in arms], f"{study.pairing.full_test}, Holm-corrected over the methods"),
        ),
    )
    # Means over other seeds say nothing of who is ahead; the answer compares common ones.
    return table.ranked(["score"], study.higher_is_better) if study.has_same_seeds else table


def best_first(study: StudySummary, table: Table) -> Table:
    """Return the main table as it is shown, with the best arm first."""
    arms = [row[0].value for row in table.rows]
    return table.with_order([arms.index(arm.name) for arm in study.by_score if arm.name in arms])


def _interval_notes(arms: Sequence[ArmSummary]) -> tuple[str, ...]:
    """Say which intervals are in brackets; the text above the table has those of one comparison alone."""
    return (_BRACKETS,) if any(_versus(arm).interval is not None for arm in arms) else ()


def _unused(study: StudySummary) -> set[str]:
    """Return the columns that would say nothing: dev if it ranks the methods, sizes that older runs did not count."""
    counted = any(arm.cost.bytes_stored is not None for arm in study.arms)
    imported = study.record.imported is not None
    unknown = {
        key for key, name in _COSTS.items() if imported and all(getattr(a.cost, name) is None for a in study.arms)
    }
    no_dev = study.split == DEV or all(arm.dev.mean is None for arm in study.arms)
    return unknown | {key for key, used in (("dev", not no_dev), ("stored", counted)) if not used}


def _score_columns(study: StudySummary) -> tuple[Column[ArmSummary], ...]:
    metric = study.format
    return (
        Column("planned", raw=lambda arm: len(arm.cells)),
        Column("finished", raw=lambda arm: len(arm.finished)),
        Column("failed", raw=lambda arm: arm.failed),
        Column("split", raw=lambda arm: study.split),
        Column("metric", raw=lambda arm: metric.metric),
        Column(
            "score",
            f"{metric.label}, {study.split_label}",
            "mean ± standard deviation over seeds; the bar is the 95% confidence interval of the mean",
            show=lambda arm: replace(spread_entry(arm.score, metric), bar=_bar(study, arm)),
            raw=lambda arm: arm.score.mean,
            field="mean",
        ),
        Column("sd", raw=lambda arm: arm.score.sd),
        *interval_fields("ci95", lambda arm: arm.score.interval),
    )


def _bar(study: StudySummary, arm: ArmSummary) -> IntervalBar | None:
    """Return the interval of the mean as places on the scale of the figure of scores, cut at its ends."""
    if arm.score.mean is None or arm.score.interval is None:
        return None
    low, high = score_limits(study)
    ends = (arm.score.interval[0], arm.score.mean, arm.score.interval[1])
    return IntervalBar(*(min(1.0, max(0.0, (end * study.format.factor - low) / (high - low))) for end in ends))


def _difference_columns(study: StudySummary) -> tuple[Column[ArmSummary], ...]:
    first = study.reference.name
    return (
        Column("reference", raw=lambda arm: first),
        Column(
            "difference",
            f"Difference to {formats.shortened(first, 32)}",
            f"mean difference, {study.pairing.matched} [95% interval, corrected as p is]",
            show=lambda arm: _difference(study, arm),
            raw=lambda arm: _versus(arm).difference,
        ),
        Column("difference_pairs", raw=lambda arm: _versus(arm).n or None),
        Column("difference_sd", raw=lambda arm: _versus(arm).sd),
        *interval_fields("difference_ci95", lambda arm: _versus(arm).interval),
        Column("p", raw=lambda arm: _versus(arm).p),
        Column("p_holm", raw=lambda arm: arm.p),
    )


def _evidence_columns(study: StudySummary) -> tuple[Column[ArmSummary], ...]:
    is_imported = study.record.imported is not None
    return (
        Column(
            "p",
            "p (Holm)",
            f"two-sided {study.pairing.test}, Holm-corrected over the methods",
            show=lambda arm: Entry(formats.p_value(arm.p), arm.p),
        ),
        Column("seeds", "Seeds", "finished of planned seeds", show=lambda arm: _seeds(arm, is_imported)),
    )


def _dev_columns(study: StudySummary) -> tuple[Column[ArmSummary], ...]:
    return (
        Column(
            "dev",
            f"{study.format.label}, dev",
            "of the selected checkpoints, mean ± standard deviation over seeds",
            show=lambda arm: spread_entry(arm.dev, study.format),
            raw=lambda arm: arm.dev.mean,
            field="dev_mean",
        ),
        Column("dev_sd", raw=lambda arm: arm.dev.sd),
    )


def _cost_columns(study: StudySummary) -> tuple[Column[ArmSummary], ...]:
    first = study.reference.cost
    return (
        *_size_columns(),
        *_time_columns(
            "step",
            "Time per step",
            "median step; × is relative to the first method",
            of=lambda arm: arm.cost.seconds_per_step,
            first=first.seconds_per_step,
            field="seconds_per_step",
        ),
        Column(
            "memory",
            "Peak memory",
            "highest of the seeds",
            show=lambda arm: formats.size(arm.cost.peak_memory_bytes),
            raw=lambda arm: arm.cost.peak_memory_bytes,
            field="peak_memory_bytes",
        ),
        *_time_columns(
            "total",
            "Training time",
            "mean over the seeds; × is relative to the first method",
            of=lambda arm: arm.cost.seconds_total,
            first=first.seconds_total,
            field="seconds_total",
        ),
    )


def _size_columns() -> tuple[Column[ArmSummary], ...]:
    return (
        Column(
            "share",
            "Trainable share",
            "share of the parameters that train, averaged over the steps",
            show=lambda arm: formats.share(arm.cost.trainable_share),
            raw=lambda arm: arm.cost.trainable_share,
            field="trainable_share",
        ),
        Column(
            "parameters",
            "Ever trained",
            "parameters that were trained at any step",
            show=lambda arm: formats.count(arm.cost.parameters_trained),
            raw=lambda arm: arm.cost.parameters_trained,
            field="parameters_trained",
        ),
        Column(
            "stored",
            "Stored per task",
            "trained tensors, and new ones that the pretrained model lacks",
            show=lambda arm: formats.size(arm.cost.bytes_stored),
            raw=lambda arm: arm.cost.bytes_stored,
            field="bytes_stored",
        ),
    )


def _time_columns(
    key: str, title: str, about: str, *, of: Callable[[ArmSummary], float | None], first: float | None, field: str
) -> tuple[Column[ArmSummary], ...]:
    """Return a time, and its ratio to the reference's."""

    def show(arm: ArmSummary) -> Entry:
        relative = ratio(of(arm), first)
        return Entry(formats.seconds(of(arm)), of(arm), "" if relative is None else f"({formats.ratio(relative)})")

    return (
        Column(key, title, about, show=show, raw=of, field=field),
        Column(f"{field}_ratio", raw=lambda arm: ratio(of(arm), first)),
    )


def _versus(arm: ArmSummary) -> Comparison:
    return arm.versus or Comparison(0)


def _difference(study: StudySummary, arm: ArmSummary) -> Entry:
    versus, metric = arm.versus, study.format
    if versus is None or versus.difference is None:
        return Entry("reference" if versus is None else NONE)
    corrected = None if arm.judged is None else arm.judged.verdict.interval_corrected
    interval = f"[{metric.interval(corrected)}]" if corrected else ""
    return Entry(f"{metric.difference(versus.difference)}{significance(arm.p)}", versus.difference, interval)


def _seeds(arm: ArmSummary, is_imported: bool) -> Entry:
    others = ", ".join(f"{arm.count(state)} {state}" for state in ("failed", "paused") if arm.count(state))
    finished = len(arm.finished)
    planned = "" if is_imported else f" of {len(arm.cells)}"
    return Entry(f"{finished}{planned}", finished, f"({others})" if others else "")


def _note(arm: ArmSummary) -> str | None:
    return "; ".join(dict.fromkeys(filter(None, (arm.score.note, _versus(arm).note)))) or None
