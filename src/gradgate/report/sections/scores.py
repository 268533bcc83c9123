"""The main table, one row a method with its score, its difference to the first one and its costs; and its figure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, look, styled
from gradgate.report.findings import Findings, MethodFindings, ratio
from gradgate.report.formats import NONE
from gradgate.report.sections.base import Section
from gradgate.report.sections.forgetting import (
    forgetting_columns,
    forgetting_entry,
    forgetting_record,
    frontier_entry,
)
from gradgate.report.table import Column, Entry, Raw, Table, ranked, significance, star_note
from gradgate.runs.records import DEV
from gradgate.statistics import Comparison

_TEST = "two-sided paired t-test over seeds, Holm-corrected over the methods"

_TERMINAL = ("method", "score", "difference", "p", "seeds", "step", "share")
_WITH_FORGETTING = ("method", "score", "forgetting", "frontier", "total", "difference", "p", "seeds")
_WITH_ADAPTERS = ("method", "score", "difference", "p", "seeds", "parameters", "stored", "step")


@dataclass(frozen=True)
class ScoresSection(Section):
    """How the methods compare on the main split."""

    @classmethod
    def find(cls, findings: Findings) -> ScoresSection:
        """Every study has it."""
        return cls(findings)

    def tables(self) -> list[Table]:
        """The main table."""
        return [main_table(self.findings)]

    def drawings(self) -> list[Drawing]:
        """The scores; nothing while no run has finished."""
        return [draw_scores(self.findings)] if self.findings.scored else []

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """The main table, ranked by score where forgetting was measured; older studies did not count what is stored."""
        table = main_table(self.findings)
        if self.findings.forgetting is not None:
            return [(_by_score(table, self.findings), _WITH_FORGETTING)]
        has_adapters = any(arm.adapter is not None for arm in self.findings.results.study.arms)
        counted = any(column.key == "stored" for column in table.columns)
        return [(table, _WITH_ADAPTERS if has_adapters and counted else _TERMINAL)]


def main_table(findings: Findings) -> Table:
    """One row a method: score, difference to the first method with its evidence, and costs."""
    metric, split, first = findings.format, findings.split_label, findings.reference.name
    columns = [
        Column("method", "Method", numeric=False),
        Column("score", f"{metric.label}, {split}", "mean ± standard deviation over seeds"),
        Column(
            "difference",
            f"Difference to {formats.shortened(first, 32)}",
            "mean of the differences paired by seed [95% CI]",
        ),
        *forgetting_columns(findings),
        Column("p", "p (Holm)", "two-sided paired t-test, Holm-corrected over the methods"),
        Column("seeds", "Seeds", "finished of planned seeds"),
        Column("dev", f"{metric.label}, dev", "of the selected checkpoints, mean ± standard deviation over seeds"),
        Column("share", "Trainable share", "open parameters over all, mean over the steps"),
        Column("parameters", "Ever trained", "parameters that were open at any step"),
        Column("stored", "Stored per task", "trained tensors, and those that the pretrained model lacks"),
        Column("step", "Time per step", "median step; × is relative to the first method"),
        Column("memory", "Peak memory", "highest of the seeds"),
        Column("total", "Training time", "mean over the seeds; × is relative to the first method"),
    ]
    counted = any(method.cost.bytes_stored is not None for method in findings.methods)
    unused = {key for key, used in (("dev", split != DEV), ("stored", counted)) if not used}
    columns = [column for column in columns if column.key not in unused]
    shown = [_main_row(findings, method) for method in findings.methods]
    higher = findings.results.study.task.metric_higher_is_better
    for row, entry in zip(shown, ranked([row["score"] for row in shown], higher), strict=True):
        row["score"] = entry
    return Table(
        "main",
        f"Methods on {findings.results.study.task.name}",
        tuple(columns),
        tuple(tuple(row[column.key] for column in columns) for row in shown),
        tuple(_main_record(findings, method) for method in findings.methods),
        frozenset(index for index, method in enumerate(findings.methods) if method in findings.best),
        star_note([method.p for method in findings.methods], _TEST),
    )


def _by_score(table: Table, findings: Findings) -> Table:
    """The same with the best method first."""
    order = [findings.methods.index(method) for method in findings.by_score]
    return replace(
        table,
        rows=tuple(table.rows[place] for place in order),
        records=tuple(table.records[place] for place in order),
        best=frozenset(number for number, place in enumerate(order) if place in table.best),
    )


def _main_row(findings: Findings, method: MethodFindings) -> dict[str, Entry]:
    metric, versus, cost = findings.format, method.versus, method.cost
    first = findings.reference.cost
    lost = {"failed": method.failed, "paused": sum(cell.state == "paused" for cell in method.cells)}
    others = ", ".join(f"{number} {status}" for status, number in lost.items() if number)
    finished = len(method.finished)
    difference = Entry("reference" if versus is None else NONE)
    if versus is not None and versus.difference is not None:
        interval = f"[{metric.interval(versus.interval)}]" if versus.interval else ""
        shown = f"{metric.difference(versus.difference)}{significance(method.p)}"
        difference = Entry(shown, versus.difference, interval)
    return {
        "method": Entry(method.name, method.name),
        "seeds": Entry(f"{finished} of {len(method.cells)}", finished, f"({others})" if others else ""),
        "score": Entry(metric.with_spread(method.score.mean, method.score.sd), method.score.mean),
        "difference": difference,
        "forgetting": forgetting_entry(findings, method),
        "frontier": frontier_entry(findings, method),
        "p": Entry(formats.p_value(method.p), method.p),
        "dev": Entry(metric.with_spread(method.dev.mean, method.dev.sd), method.dev.mean),
        "share": Entry(formats.share(cost.trainable_share), cost.trainable_share),
        "parameters": Entry(formats.count(cost.parameters_trained), cost.parameters_trained),
        "stored": Entry(formats.size(cost.bytes_stored), cost.bytes_stored),
        "step": _timed(cost.seconds_per_step, first.seconds_per_step),
        "memory": Entry(formats.size(cost.peak_memory_bytes), cost.peak_memory_bytes),
        "total": _timed(cost.seconds_total, first.seconds_total),
    }


def _timed(value: float | None, reference: float | None) -> Entry:
    relative = ratio(value, reference)
    return Entry(formats.seconds(value), value, "" if relative is None else f"({formats.ratio(relative)})")


def _main_record(findings: Findings, method: MethodFindings) -> dict[str, Raw]:
    score, versus = method.score, method.versus or Comparison(0)
    cost, first = method.cost, findings.reference.cost
    low, high = score.interval or (None, None)
    difference_low, difference_high = versus.interval or (None, None)
    return {
        "method": method.name,
        "planned": len(method.cells),
        "finished": len(method.finished),
        "failed": method.failed,
        "split": findings.split,
        "metric": findings.format.metric,
        "mean": score.mean,
        "sd": score.sd,
        "ci95_low": low,
        "ci95_high": high,
        "reference": findings.reference.name,
        "difference": versus.difference,
        "difference_pairs": versus.n or None,
        "difference_sd": versus.sd,
        "difference_ci95_low": difference_low,
        "difference_ci95_high": difference_high,
        "p": versus.p,
        "p_holm": method.p,
        **forgetting_record(findings, method),
        "dev_mean": method.dev.mean,
        "dev_sd": method.dev.sd,
        "trainable_share": cost.trainable_share,
        "parameters_trained": cost.parameters_trained,
        "bytes_stored": cost.bytes_stored,
        "seconds_per_step": cost.seconds_per_step,
        "seconds_per_step_ratio": ratio(cost.seconds_per_step, first.seconds_per_step),
        "peak_memory_bytes": cost.peak_memory_bytes,
        "seconds_total": cost.seconds_total,
        "seconds_total_ratio": ratio(cost.seconds_total, first.seconds_total),
        "note": "; ".join(dict.fromkeys(filter(None, (score.note, versus.note)))) or None,
    }


# An interval from two seeds can be fifty times as wide as the scores are apart; it must not squeeze them.
_REACH = 0.75


def draw_scores(findings: Findings) -> Drawing:
    """One line a method: every seed as a dot, the mean as a diamond, its confidence interval as a bar."""
    metric = findings.format
    methods = findings.scored
    with styled(0.75 + 0.58 * len(methods)) as figure:
        axes = figure.add_subplot()
        low, high = _limits(findings)
        for row, method in enumerate(methods):
            _draw_row(axes, findings, method, -row, (low, high))
        if findings.reference.score.mean is not None:
            axes.axvline(findings.reference.score.mean * metric.factor, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set(
            xlim=(low, high),
            ylim=(-len(methods) + 0.55, 0.75),
            yticks=[],
            xlabel=formats.shortened(f"{metric.label}, {findings.split_label}", 52),
        )
        axes.spines["left"].set_visible(False)
        caption = (
            "Dots are seeds, diamonds means, bars 95% confidence intervals of the mean (an arrow where one leaves the "
            f"picture). The dashed line is the mean of {findings.reference.name}."
        )
        return finish(figure, "scores", "Scores", caption, _scores_text(findings), "main")


def _limits(findings: Findings) -> tuple[float, float]:
    factor = findings.format.factor
    dots = [
        factor * score for m in findings.scored for c in m.finished if (score := c.score(findings.split)) is not None
    ]
    ends = [factor * end for method in findings.scored for end in method.score.interval or ()]
    span = max(dots) - min(dots)
    if span <= 1e-9 * max(map(abs, dots)):  # level but for rounding
        span = max(0.02 * abs(dots[0]), 0.02)
    low = max(min([*dots, *ends]), min(dots) - _REACH * span)
    high = min(max([*dots, *ends]), max(dots) + _REACH * span)
    return low - 0.06 * (high - low) - 0.02 * span, high + 0.06 * (high - low) + 0.02 * span


def _draw_row(axes: Axes, findings: Findings, method: MethodFindings, y: int, limits: tuple[float, float]) -> None:
    metric = findings.format
    style = look(findings.methods.index(method))
    mean = (method.score.mean or 0.0) * metric.factor
    if method.score.interval:
        ends = [end * metric.factor for end in method.score.interval]
        shown = [max(ends[0], limits[0]), min(ends[1], limits[1])]
        axes.plot(shown, [y, y], color=style.colour, lw=2, solid_capstyle="butt", zorder=2)
        for end, limit, marker in ((ends[0], limits[0], "<"), (ends[1], limits[1], ">")):
            cut = (end < limit) if marker == "<" else (end > limit)
            axes.plot(limit if cut else end, y, marker if cut else "|", color=style.colour, ms=7, clip_on=False)
    dots = [(c.seed, score * metric.factor) for c in method.finished if (score := c.score(findings.split)) is not None]
    # Seeds sit in a fixed order below the bar, so that equal scores stay apart.
    heights = [y - 0.13 - 0.16 * place / max(1, len(dots) - 1) for place in range(len(dots))]
    axes.plot([score for _, score in dots], heights, "o", color=style.colour, ms=4, alpha=0.75, mew=0, zorder=3)
    axes.plot(mean, y, "D", color=style.colour, mec=PAPER, ms=7, zorder=4)
    label = formats.shortened(method.name, 40)
    value = metric.with_spread(method.score.mean, method.score.sd)
    across = axes.get_yaxis_transform()
    weight = "bold" if method in findings.best else "normal"
    axes.text(0, y + 0.16, label, transform=across, ha="left", va="bottom")
    axes.text(1, y + 0.16, value, transform=across, ha="right", va="bottom", fontweight=weight)


def _scores_text(findings: Findings) -> str:
    metric = findings.format
    parts = [
        f"{method.name} {metric.with_spread(method.score.mean, method.score.sd)}"
        f" ({formats.counted(method.score.n, 'seed')})"
        for method in findings.scored
    ]
    return f"{metric.label} on {findings.split_label}: {'; '.join(parts)}."
