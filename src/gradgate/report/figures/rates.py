"""Box plots over learning rates, as AdapterEff's Fig. 4 has them."""

from __future__ import annotations

from statistics import median

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.figures.style import MUTED, PAPER, Drawing, finish, legend_below, look, styled, wrapped
from gradgate.report.findings import Findings
from gradgate.report.rates import Rates, RateScores
from gradgate.tasks.averages import average_label


def draw_rates(findings: Findings, rates: Rates) -> Drawing:
    """Learning rates to the right, a box for each method at each of them."""
    places = {rate: place for place, rate in enumerate(rates.all)}
    metric, count = findings.format, len(rates.methods)
    width = 0.8 / count
    with styled(2.9 + 0.19 * count) as figure:
        axes = figure.add_subplot()
        for index, method in enumerate(rates.methods):
            shift = (index - (count - 1) / 2) * width
            _draw_boxes(
                axes, method, index, {rate: place + shift for rate, place in places.items()}, width, metric.factor
            )
        crowded = len(places) > 6
        axes.set_xticks(
            range(len(places)), [formats.learning_rate(rate) for rate in places], rotation=90 if crowded else 0
        )
        axes.set(xlabel="learning rate", ylabel=wrapped(f"{metric.label}, {average_label(rates.split)}"))
        axes.grid(axis="y", color=MUTED, alpha=0.2, lw=0.6)
        legend_below(figure)
        what = "Runs of the search, scored on dev" if rates.searched else "Runs of the study"
        caption = (
            f"{what}: boxes from the lower to the upper quartile, with the median as a line; whiskers reach the runs "
            f"within 1.5 of their height, dots are runs beyond."
        )
        text = _text(findings, rates)
        return finish(figure, "learning-rates", "Scores by learning rate", caption, text, "learning-rates")


def _draw_boxes(
    axes: Axes, method: RateScores, index: int, places: dict[float, float], width: float, factor: int
) -> None:
    # The first is drawn in ink elsewhere, which would hide the line of the median.
    style = look(index + 1)
    boxes = axes.boxplot(
        [[factor * score for score in scores] for scores in method.scores.values()],
        positions=[places[rate] for rate in method.scores],
        widths=0.8 * width,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": style.colour, "edgecolor": style.colour, "alpha": 0.55},
        medianprops={"color": style.colour, "lw": 2},
        whiskerprops={"color": style.colour},
        capprops={"color": style.colour},
        flierprops={"marker": style.marker, "mfc": style.colour, "mec": PAPER, "ms": 5},
    )
    boxes["boxes"][0].set_label(formats.shortened(method.label, 40))


def _text(findings: Findings, rates: Rates) -> str:
    value = findings.format.value
    parts = [
        f"{method.label} "
        + ", ".join(
            f"{value(median(scores))} at {formats.learning_rate(rate)} ({value(min(scores))} to {value(max(scores))})"
            for rate, scores in method.scores.items()
        )
        for method in rates.methods
    ]
    return f"Median {findings.format.label} on {average_label(rates.split)}, lowest to highest: {'; '.join(parts)}."
