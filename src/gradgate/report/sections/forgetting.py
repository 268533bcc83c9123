"""Score against forgetting: what each method costs elsewhere, and which methods no other beats."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_below, legend_label, look, styled, wrapped
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.statistics import summarize
from gradgate.study.frontier import forgetting_of, frontier, trades

NAME = "forgetting"
ON, OFF = "yes", "no"


@dataclass(frozen=True)
class ForgettingSection(Section):
    """What the runs have forgotten, where ``--forgetting`` measured it."""

    format: ScoreFormat

    @classmethod
    def find(cls, findings: Findings) -> ForgettingSection | None:
        """None for a study that has not measured it."""
        return None if findings.forgetting is None else cls(findings, findings.forgetting)

    @property
    def measured(self) -> list[MethodFindings]:
        """The methods with a run whose forgetting is a number."""
        return [method for method in self.findings.by_score if method.forgetting.mean is not None]

    def tables(self) -> list[Table]:
        """Before and after, by method, the best score first."""
        return [forgetting_table(self.findings, self.format)]

    def drawings(self) -> list[Drawing]:
        """Score against forgetting."""
        return [draw_forgetting(self.findings, self.format, self.measured)] if self.measured else []

    def remarks(self) -> list[str]:
        """What the figure shows."""
        return [seen(self.findings, self.format, self.measured)] if self.measured else []

    def notes(self) -> list[str]:
        """How the numbers are made."""
        record = _example(self.findings)
        if record.tokens is None:
            what = f"{record.metric} over {formats.counted(record.rows, 'row')} of prompts and responses"
        else:
            what = (
                f"the mean negative log-likelihood in nats of {record.tokens:,} tokens in "
                f"{formats.counted(record.rows, 'text')}, each read alone, in blocks of max_length tokens that begin "
                f"with the last token of the block before, so that none is counted twice"
            )
        return [
            f"Forgetting on {record.file}: {what}. Before is the pretrained model without an adapter, after are the "
            f"weights that were best on dev, with it. Above 0, the model has become worse there. A method is on the "
            f"frontier if no other is as good or better in score, forgetting and training time, all means over seeds, "
            f"and better in one of them."
        ]


def _example(findings: Findings) -> ForgettingRecord:
    """What the runs have in common: the file and how it is measured."""
    return next(record for method in findings.scored for record in forgetting_of(method.finished))


def forgetting_columns(findings: Findings) -> list[Column]:
    """What the main table has where forgetting was measured."""
    if findings.forgetting is None:
        return []
    file = _example(findings).file
    return [
        Column(
            "forgetting",
            f"Forgetting, {findings.forgetting.label}",
            f"how much worse on {file} than the pretrained model, mean ± standard deviation over seeds",
        ),
        Column(
            "frontier", "Frontier", "no other method beats it in score, forgetting and training time", numeric=False
        ),
    ]


def forgetting_entry(findings: Findings, method: MethodFindings) -> Entry:
    """The mean over seeds; above 0 is worse than before."""
    form, summary = findings.forgetting, method.forgetting
    if form is None or summary.mean is None:
        return Entry(NONE)
    spread = "" if summary.sd is None else f" ± {form.value(summary.sd)}"
    return Entry(f"{form.difference(summary.mean)}{spread}", summary.mean)


def frontier_entry(findings: Findings, method: MethodFindings) -> Entry:
    """Whether the method is on the frontier."""
    if method.forgetting.mean is None:
        return Entry(NONE)
    is_on = method.name in findings.frontier
    return Entry(ON if is_on else OFF, int(is_on))


def forgetting_record(findings: Findings, method: MethodFindings) -> dict[str, Raw]:
    """The same for CSV files; empty where forgetting was not measured."""
    if findings.forgetting is None:
        return {}
    summary = method.forgetting
    low, high = summary.interval or (None, None)
    return {
        "forgetting_metric": findings.forgetting.metric,
        "forgetting_mean": summary.mean,
        "forgetting_sd": summary.sd,
        "forgetting_ci95_low": low,
        "forgetting_ci95_high": high,
        "on_frontier": None if summary.mean is None else int(method.name in findings.frontier),
    }


def forgetting_table(findings: Findings, form: ScoreFormat) -> Table:
    """One row a method, the best score first: the metric before and after, the difference, and the frontier."""
    columns = (
        Column("method", "Method", numeric=False),
        Column("score", f"{findings.format.label}, {findings.split_label}", "mean ± standard deviation over seeds"),
        Column("before", f"{form.label} before", "of the pretrained model"),
        Column("after", f"{form.label} after", "of the best weights on dev, mean ± standard deviation over seeds"),
        Column("forgetting", "Forgetting", "how much worse; mean ± standard deviation over seeds [95% CI]"),
        Column("total", "Training time", "mean over the seeds"),
        Column(
            "frontier", "Frontier", "no other method beats it in score, forgetting and training time", numeric=False
        ),
    )
    rows, records = [], []
    for method in findings.by_score:
        held = forgetting_of(method.finished)
        before = summarize([record.before for record in held][:1])
        after = summarize([record.after for record in held])
        shown, interval = forgetting_entry(findings, method), method.forgetting.interval
        score = findings.format.with_spread(method.score.mean, method.score.sd)
        rows.append(
            (
                Entry(method.name, method.name),
                Entry(score, method.score.mean),
                Entry(form.value(before.mean), before.mean),
                Entry(form.with_spread(after.mean, after.sd), after.mean),
                Entry(shown.text, shown.value, f"[{form.interval(interval)}]" if interval else ""),
                Entry(formats.seconds(method.cost.seconds_total), method.cost.seconds_total),
                frontier_entry(findings, method),
            )
        )
        records.append(
            {
                "method": method.name,
                "score": method.score.mean,
                "file": held[0].file if held else None,
                "before": before.mean,
                "after_mean": after.mean,
                "after_sd": after.sd,
                **forgetting_record(findings, method),
                "seconds_total": method.cost.seconds_total,
            }
        )
    return Table(NAME, "Forgetting", columns, tuple(rows), tuple(records))


def seen(findings: Findings, form: ScoreFormat, measured: list[MethodFindings]) -> str:
    """What was forgotten, in a paragraph."""
    file = _example(findings).file
    by_loss = sorted(measured, key=lambda method: method.forgetting.mean or 0.0)
    least, most = by_loss[0], by_loss[-1]
    if least is most:
        return f"On {file}, {_said(findings, form, least)}."
    parts = [f"On {file}, {_said(findings, form, least)}; {_said(findings, form, most)}."]
    on = [method.name for method in measured if method.name in findings.frontier]
    beaten = len(measured) - len(on)
    parts.append(
        f"{formats.listed(on)} {'is' if len(on) == 1 else 'are'} on the frontier of score, forgetting and time"
    )
    parts.append(
        f"; {formats.counted(beaten, 'other method')} {'is' if beaten == 1 else 'are'} no better in any of the three "
        f"than one that beats {'it' if beaten == 1 else 'them'}."
        if beaten
        else ": no method beats another."
    )
    return f"{parts[0]} {parts[1]}{parts[2]}"


def _said(findings: Findings, form: ScoreFormat, method: MethodFindings) -> str:
    mean, sd = method.forgetting.mean or 0.0, method.forgetting.sd
    verb, score = "gains" if mean < 0 else "forgets", findings.format.value(method.score.mean)
    amount = f"{form.with_spread(abs(mean), sd)} {form.label}"
    return f"{method.name} {verb} {amount} and scores {score} {findings.format.label}"


def draw_forgetting(findings: Findings, form: ScoreFormat, measured: list[MethodFindings]) -> Drawing:
    """One point a method with its intervals; a line along the frontier of score and forgetting."""
    with styled(3.1 + 0.19 * len(measured)) as figure:
        axes = figure.add_subplot()
        _draw_frontier(axes, findings, form)
        for method in measured:
            _draw_method(axes, findings, form, method)
        axes.axvline(0, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.margins(0.1)
        axes.set(
            xlabel=formats.shortened(f"forgetting, {form.label}", 52),
            ylabel=wrapped(f"{findings.format.label}, {findings.split_label}"),
        )
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        legend_below(figure)
        caption = (
            f"{seen(findings, form, measured)} Marks are means, bars 95% confidence intervals, or ± one standard "
            f"deviation where there are two seeds. Methods on the frontier of score, forgetting and training time are "
            f"filled. The line is the frontier of score and forgetting alone."
        )
        return finish(figure, NAME, "Score against forgetting", caption, _text(findings, form, measured), NAME)


def _draw_frontier(axes: Axes, findings: Findings, form: ScoreFormat) -> None:
    """Steps along the methods that none beats in score and forgetting."""
    points = {label: trade.point[:2] for label, trade in trades(findings.results).items()}
    best = sorted((points[label][1], points[label][0]) for label in frontier(points))
    sign = -1 if findings.results.study.task.metric_higher_is_better else 1
    across = [form.factor * forgotten for forgotten, _ in best]
    up = [findings.format.factor * sign * score for _, score in best]
    axes.step(across, up, where="post", color=MUTED, lw=1.2, zorder=1)


def _draw_method(axes: Axes, findings: Findings, form: ScoreFormat, method: MethodFindings) -> None:
    style, is_on = look(findings.methods.index(method)), method.name in findings.frontier
    x, y = (method.forgetting.mean or 0.0) * form.factor, (method.score.mean or 0.0) * findings.format.factor
    for summary, factor, level in ((method.forgetting, form.factor, y), (method.score, findings.format.factor, x)):
        low, high = _ends(summary.mean or 0.0, summary.sd, summary.interval, summary.n)
        ends = [factor * low, factor * high]
        line = (ends, [level, level]) if summary is method.forgetting else ([level, level], ends)
        axes.plot(*line, color=style.colour, lw=1.2, zorder=2)
    face = style.colour if is_on else PAPER
    label = legend_label(method.name, 40)
    axes.scatter(x, y, s=55, c=face, marker=style.marker, edgecolors=style.colour, label=label, zorder=3)


def _ends(mean: float, sd: float | None, interval: tuple[float, float] | None, seeds: int) -> tuple[float, float]:
    """An interval of two seeds is too wide to be drawn."""
    if interval is not None and seeds > 2:
        return interval
    return mean - (sd or 0.0), mean + (sd or 0.0)


def _text(findings: Findings, form: ScoreFormat, measured: list[MethodFindings]) -> str:
    parts = [
        f"{_said(findings, form, method)} in {formats.seconds(method.cost.seconds_total)}"
        f"{', on the frontier' if method.name in findings.frontier else ''}"
        for method in measured
    ]
    return f"{'; '.join(parts)}."
