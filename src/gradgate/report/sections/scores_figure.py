"""Draw the scores of each arm: every seed, the mean and its interval."""

from __future__ import annotations

from matplotlib.axes import Axes

from gradgate.errors import counted
from gradgate.report import formats
from gradgate.report.drawing import BEHIND, MUTED, PAPER, Drawing, finish, style_of, styled
from gradgate.report.sections.intervals import draw_interval, limits_of
from gradgate.report.study_summary import ArmSummary, StudySummary


def draw_scores(study: StudySummary) -> Drawing:
    """Draw one line per arm, the best first: seeds as dots, the mean as a diamond, its confidence interval as a bar."""
    metric = study.format
    arms = [arm for arm in study.by_score if arm.finished]
    with styled(0.75 + 0.58 * len(arms)) as figure:
        axes = figure.add_subplot()
        low, high = score_limits(study)
        for row, arm in enumerate(arms):
            _draw_row(axes, study, arm, -row, (low, high))
        if study.reference.score.mean is not None:
            axes.axvline(study.reference.score.mean * metric.factor, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set(
            xlim=(low, high),
            ylim=(-len(arms) + 0.55, 0.75),
            yticks=[],
            xlabel=formats.shortened(f"{metric.label}, {study.split_label}", 52),
        )
        axes.spines["left"].set_visible(False)
        caption = (
            "Dots are seeds, diamonds means, bars 95% confidence intervals of the mean (arrows: beyond the "
            f"axis). Dashed: mean of {study.reference.name}."
        )
        return finish(figure, "scores", "Scores", caption, _scores_text(study), "main")


def score_limits(study: StudySummary) -> tuple[float, float]:
    """Return the ends of a scale for all scores and, as far as these do not squeeze the scores, their intervals."""
    factor = study.format.factor
    dots = [factor * score for arm in study.scored for score in arm.score.values]
    ends = [factor * end for arm in study.scored for end in arm.score.interval or ()]
    return limits_of(dots, ends)


def _draw_row(axes: Axes, study: StudySummary, arm: ArmSummary, y: int, limits: tuple[float, float]) -> None:
    metric = study.format
    style = style_of(study.place(arm))
    mean = (arm.score.mean or 0.0) * metric.factor
    if arm.score.interval:
        low, high = arm.score.interval
        draw_interval(axes, (low * metric.factor, high * metric.factor), limits, y, style.colour)
    dots = [score * metric.factor for score in arm.score.values]
    # Seeds sit in a fixed order below the bar, so that equal scores stay apart.
    heights = [y - 0.13 - 0.16 * place / max(1, len(dots) - 1) for place in range(len(dots))]
    axes.plot(dots, heights, "o", color=style.colour, ms=4, alpha=0.75, mew=0, zorder=3)
    axes.plot(mean, y, "D", color=style.colour, mec=PAPER, ms=7, zorder=4)
    label = formats.shortened(arm.name, 40)
    value = metric.with_spread(arm.score.mean, arm.score.sd)
    across = axes.get_yaxis_transform()
    weight = "bold" if arm in study.best else "normal"
    axes.text(0, y + 0.16, label, transform=across, ha="left", va="bottom")
    axes.text(1, y + 0.16, value, transform=across, ha="right", va="bottom", fontweight=weight, bbox=BEHIND)


def _scores_text(study: StudySummary) -> str:
    metric = study.format
    parts = [
        f"{arm.name} {metric.with_spread(arm.score.mean, arm.score.sd)} ({counted(arm.score.n, 'seed')})"
        for arm in study.scored
    ]
    return f"{metric.label} on {study.split_label}: {'; '.join(parts)}."
