"""Show score against forgetting: what each method costs elsewhere, and which methods no other beats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gradgate.errors import counted
from gradgate.report import formats
from gradgate.report.drawing import Drawing
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.sections.forgetting_figure import KL_IN_WORDS, NAME, caption, draw_forgetting, first_record
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Table, interval_fields, spread_entry, text_column
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.statistics import Summary, summarize
from gradgate.study.frontier import forgetting_of
from gradgate.tasks.metrics import KL

ON, OFF = "yes", "no"


@dataclass(frozen=True)
class ForgettingSection(Section):
    """The forgetting of the runs, if ``--forgetting`` measured it."""

    format: ScoreFormat

    @classmethod
    def find(cls, study: StudySummary) -> ForgettingSection | None:
        """Return None for a study that has not measured it."""
        return None if study.forgetting is None else cls(study, study.forgetting)

    @property
    def measured(self) -> list[ArmSummary]:
        """The arms with a run whose forgetting is a number."""
        return [arm for arm in self.study.by_score if arm.forgetting.mean is not None]

    def tables(self) -> list[Table]:
        """Return before and after by method, the best score first."""
        return [forgetting_table(self.study, self.format)]

    def drawings(self) -> list[Drawing]:
        """Draw score against forgetting."""
        return [draw_forgetting(self.study, self.format, self.measured)] if self.measured else []

    def remarks(self) -> list[str]:
        """Say what the figure shows."""
        return [caption(self.study, self.format, self.measured)] if self.measured else []

    def notes(self) -> list[str]:
        """Say how the numbers are made."""
        record = first_record(self.study)
        above = "moved away from the pretrained one" if record.metric == KL else "became worse"
        return [
            f"Forgetting on {record.file}: {_measured(record)}. 'Before' is the pretrained model without an adapter; "
            f"'after' is the best checkpoint on dev, with its adapter. Values above 0 mean that the model {above} on "
            "this text. A method is on the frontier if no other is at least as good in score, forgetting and "
            "training time (means over seeds) and better in one of them."
        ]


def _measured(record: ForgettingRecord) -> str:
    """Say what was measured, in words."""
    rows = counted(record.rows, "row")
    if record.tokens is None:
        if record.metric == KL:
            return f"{KL_IN_WORDS}, over the tokens that the loss counts in {rows} of prompts and responses"
        return f"{record.metric} over {rows} of prompts and responses"
    what = f"{KL_IN_WORDS}, over" if record.metric == KL else "the mean negative log-likelihood, in nats, of"
    return (
        f"{what} {record.tokens:,} tokens in {counted(record.rows, 'text')}; each text is read on its own, in "
        "blocks of max_length tokens that start with the previous block's last token, so that each token is counted "
        "once"
    )


def forgetting_columns(study: StudySummary) -> tuple[Column[ArmSummary], ...]:
    """Return the columns of the main table; none if forgetting was not measured."""
    if study.forgetting is None:
        return ()
    record = first_record(study)
    how = "how far from" if record.metric == KL else "how much worse than"
    about = f"{how} the pretrained model on {record.file}, mean ± standard deviation over seeds"
    return (
        Column(
            "forgetting",
            f"Forgetting, {study.forgetting.label}",
            about,
            show=lambda arm: _forgetting_entry(study, arm),
        ),
        _frontier_column(study),
        *_forgetting_fields(study, study.forgetting),
    )


def _frontier_column(study: StudySummary) -> Column[ArmSummary]:
    return Column(
        "frontier",
        "Frontier",
        "no other method beats it in score, forgetting and training time",
        numeric=False,
        show=lambda arm: _frontier_entry(study, arm),
    )


def _forgetting_fields(study: StudySummary, form: ScoreFormat) -> tuple[Column[ArmSummary], ...]:
    """Return what is exported of forgetting."""
    return (
        Column("forgetting_metric", raw=lambda arm: form.metric),
        Column("forgetting_mean", raw=lambda arm: arm.forgetting.mean),
        Column("forgetting_sd", raw=lambda arm: arm.forgetting.sd),
        *interval_fields("forgetting_ci95", lambda arm: arm.forgetting.interval),
        Column(
            "on_frontier",
            raw=lambda arm: None if arm.forgetting.mean is None else int(arm.name in study.frontier),
        ),
    )


def _forgetting_entry(study: StudySummary, arm: ArmSummary) -> Entry:
    """Show the mean over seeds; above 0 is worse than before."""
    form, lost = study.forgetting, arm.forgetting
    if form is None or lost.mean is None:
        return Entry(NONE)
    spread = "" if lost.sd is None else f" ± {form.value(lost.sd)}"
    return Entry(f"{form.difference(lost.mean)}{spread}", lost.mean)


def _frontier_entry(study: StudySummary, arm: ArmSummary) -> Entry:
    if arm.forgetting.mean is None:
        return Entry(NONE)
    is_on = arm.name in study.frontier
    return Entry(ON if is_on else OFF, int(is_on))


def forgetting_table(study: StudySummary, form: ScoreFormat) -> Table:
    """Return one row per method, the best score first: the metric before and after, the difference, the frontier."""
    records = {arm.name: forgetting_of(arm.finished) for arm in study.arms}
    before = {name: summarize([record.before for record in found][:1]) for name, found in records.items()}
    after = {name: summarize([record.after for record in found]) for name, found in records.items()}
    columns = (
        text_column("method", "Method", of=lambda arm: arm.name),
        Column(
            "score",
            f"{study.format.label}, {study.split_label}",
            "mean ± standard deviation over seeds",
            show=lambda arm: spread_entry(arm.score, study.format),
            raw=lambda arm: arm.score.mean,
        ),
        Column("file", raw=lambda arm: records[arm.name][0].file if records[arm.name] else None),
        *_metric_columns(before, after, form),
        Column(
            "forgetting",
            "Forgetting",
            f"how {'far away' if form.metric == KL else 'much worse'}; mean ± standard deviation over seeds [95% CI]",
            show=lambda arm: _with_interval(study, form, arm),
        ),
        *_forgetting_fields(study, form),
        Column(
            "total",
            "Training time",
            "mean over the seeds",
            show=lambda arm: formats.seconds(arm.cost.seconds_total),
            raw=lambda arm: arm.cost.seconds_total,
            field="seconds_total",
        ),
        _frontier_column(study),
    )
    return Table.of(NAME, "Forgetting", study.by_score, columns)


def _metric_columns(
    before: Mapping[str, Summary], after: Mapping[str, Summary], form: ScoreFormat
) -> tuple[Column[ArmSummary], ...]:
    """Return the columns of the metric before training and after it."""
    return (
        Column(
            "before",
            f"{form.label} before",
            "of the pretrained model",
            show=lambda arm: form.value(before[arm.name].mean),
            raw=lambda arm: before[arm.name].mean,
        ),
        Column(
            "after",
            f"{form.label} after",
            "of the best checkpoint on dev, mean ± standard deviation over seeds",
            show=lambda arm: spread_entry(after[arm.name], form),
            raw=lambda arm: after[arm.name].mean,
            field="after_mean",
        ),
        Column("after_sd", raw=lambda arm: after[arm.name].sd),
    )


def _with_interval(study: StudySummary, form: ScoreFormat, arm: ArmSummary) -> Entry:
    interval = f"[{form.interval(arm.forgetting.interval)}]" if arm.forgetting.interval else ""
    return replace(_forgetting_entry(study, arm), detail=interval)
