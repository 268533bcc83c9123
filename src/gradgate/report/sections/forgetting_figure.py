"""Draw score against forgetting, and say what it shows."""

from __future__ import annotations

from matplotlib.axes import Axes

from gradgate.errors import counted, listed
from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_label, style_of, styled, wrapped
from gradgate.report.formats import ScoreFormat
from gradgate.report.names_in_figures import name_marks
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.study.frontier import forgetting_of, frontier, trades
from gradgate.tasks.metrics import KL

NAME = "forgetting"
KL_IN_WORDS = (
    "the mean Kullback-Leibler divergence KL(pretrained || trained) of the distributions of the next token, in nats "
    "per token"
)


def first_record(study: StudySummary) -> ForgettingRecord:
    """Return a record of forgetting; all runs of a study share its file and how it is measured."""
    return next(record for arm in study.scored for record in forgetting_of(arm.finished))


def caption(study: StudySummary, form: ScoreFormat, measured: list[ArmSummary]) -> str:
    """Say what was forgotten, in a paragraph."""
    file = first_record(study).file
    by_loss = sorted(measured, key=lambda arm: arm.forgetting.mean or 0.0)
    least, most = by_loss[0], by_loss[-1]
    if least is most:
        return f"On {file}, {_said(study, form, least)}."
    parts = [f"On {file}, {_said(study, form, least)}; {_said(study, form, most)}."]
    on = [arm.name for arm in measured if arm.name in study.frontier]
    beaten = len(measured) - len(on)
    parts.append(f"{listed(on)} {'is' if len(on) == 1 else 'are'} on the frontier of score, forgetting and time")
    parts.append(
        f"; {counted(beaten, 'other method')} {'is' if beaten == 1 else 'are'} dominated by one of these."
        if beaten
        else ": no method dominates another."
    )
    return f"{parts[0]} {parts[1]}{parts[2]}"


def _said(study: StudySummary, form: ScoreFormat, arm: ArmSummary) -> str:
    mean, sd = arm.forgetting.mean or 0.0, arm.forgetting.sd
    score, amount = study.format.value(arm.score.mean), form.with_spread(abs(mean), sd)
    if form.metric == KL:
        lost = f"has a {form.label} of {amount}"
    else:
        lost = f"{'gains' if mean < 0 else 'forgets'} {amount} {form.label}"
    return f"{arm.name} {lost} and scores {score} {study.format.label}"


def draw_forgetting(study: StudySummary, form: ScoreFormat, measured: list[ArmSummary]) -> Drawing:
    """Draw one point per arm with its intervals, and a line along the frontier of score and forgetting."""
    with styled(3.1 + 0.19 * len(measured)) as figure:
        axes = figure.add_subplot()
        _draw_frontier(axes, study, form)
        for arm in measured:
            _draw_arm(axes, study, form, arm)
        axes.axvline(0, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.margins(0.1)
        axes.set(
            xlabel=formats.shortened(f"forgetting, {form.label}", 52),
            ylabel=wrapped(f"{study.format.label}, {study.split_label}"),
        )
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        whole = (
            f"{caption(study, form, measured)} Marks are means, bars 95% confidence intervals (± one standard "
            "deviation for two seeds). Methods on the frontier of score, forgetting and training time are "
            "filled. The line is the frontier of score and forgetting alone."
        )
        return finish(figure, NAME, "Score against forgetting", whole, _text(study, form, measured), NAME)


def _draw_frontier(axes: Axes, study: StudySummary, form: ScoreFormat) -> None:
    """Draw steps along the arms that none beats in score and forgetting."""
    points = {label: trade.point[:2] for label, trade in trades(study.results).items()}
    best = sorted((points[label][1], points[label][0]) for label in frontier(points))
    sign = -1 if study.record.task.metric_higher_is_better else 1
    across = [form.factor * forgotten for forgotten, _ in best]
    up = [study.format.factor * sign * score for _, score in best]
    axes.step(across, up, where="post", color=MUTED, lw=1.2, zorder=1)


def _draw_arm(axes: Axes, study: StudySummary, form: ScoreFormat, arm: ArmSummary) -> None:
    style, is_on = style_of(study.place(arm)), arm.name in study.frontier
    x, y = (arm.forgetting.mean or 0.0) * form.factor, (arm.score.mean or 0.0) * study.format.factor
    for summary, factor, level in ((arm.forgetting, form.factor, y), (arm.score, study.format.factor, x)):
        low, high = _ends(summary.mean or 0.0, summary.sd, summary.interval, summary.n)
        ends = [factor * low, factor * high]
        line = (ends, [level, level]) if summary is arm.forgetting else ([level, level], ends)
        axes.plot(*line, color=style.colour, lw=1.2, zorder=2)
    face = style.colour if is_on else PAPER
    label = legend_label(arm.name, 40)
    axes.scatter(x, y, s=55, c=face, marker=style.marker, edgecolors=style.colour, label=label, zorder=3)


def _ends(mean: float, sd: float | None, interval: tuple[float, float] | None, seeds: int) -> tuple[float, float]:
    """Return the ends of a bar; the interval of two seeds is too wide to be drawn."""
    if interval is not None and seeds > 2:
        return interval
    return mean - (sd or 0.0), mean + (sd or 0.0)


def _text(study: StudySummary, form: ScoreFormat, measured: list[ArmSummary]) -> str:
    parts = [
        f"{_said(study, form, arm)} in {formats.seconds(arm.cost.seconds_total)}"
        f"{', on the frontier' if arm.name in study.frontier else ''}"
        for arm in measured
    ]
    return f"{'; '.join(parts)}."
