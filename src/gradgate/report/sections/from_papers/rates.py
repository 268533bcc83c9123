"""Show scores by learning rate, if a study has several: in its search, or in adapters that differ in nothing else.

He et al. 2021, Sec. 5 and Fig. 4: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_label, style_of, styled, wrapped
from gradgate.report.formats import ScoreFormat
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import Section
from gradgate.report.sections.from_papers.learning_rates import Rates, RateScores, find_rates
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, spread_entry, spread_fields, text_column
from gradgate.tasks.languages import average_label

NAME = "learning-rates"


@dataclass(frozen=True)
class RatesSection(Section):
    """Scores by learning rate."""

    rates: Rates

    @classmethod
    def find(cls, study: StudySummary) -> RatesSection | None:
        """Return None for a study of one learning rate."""
        rates = find_rates(study)
        return cls(study, rates) if rates else None

    def tables(self) -> list[Table]:
        """Return one row per method, one column per rate."""
        return [rate_table(self.study, self.rates)]

    def drawings(self) -> list[Drawing]:
        """Draw a box for each method at each rate."""
        return [draw_rates(self.study, self.rates)] if self.study.scored else []


def rate_table(study: StudySummary, rates: Rates) -> Table:
    """Return one row per method, one column per learning rate."""
    metric = study.format
    measured = [(method, rate) for method in rates.methods for rate in method.scores]
    fields: tuple[Column[tuple[RateScores, float]], ...] = (
        Column("method", raw=lambda row: row[0].label),
        Column("lr", raw=lambda row: row[1]),
        Column("split", raw=lambda row: rates.split),
        Column("metric", raw=lambda row: metric.metric),
        *spread_fields(lambda row: row[0].summaries[row[1]]),
        Column("median", raw=lambda row: median(row[0].scores[row[1]])),
        Column("lowest", raw=lambda row: min(row[0].scores[row[1]])),
        Column("highest", raw=lambda row: max(row[0].scores[row[1]])),
    )
    columns = (
        text_column("method", "Method", of=lambda method: method.label),
        *(_rate_column(rate, metric) for rate in rates.all),
    )
    title = f"Learning rates: {metric.label}, {average_label(rates.split)}"
    return Table.of(NAME, title, rates.methods, columns, records=records_of(measured, fields))


def _rate_column(rate: float, metric: ScoreFormat) -> Column[RateScores]:
    def show(method: RateScores) -> Entry:
        scores = method.scores.get(rate)
        detail = f"({metric.value(median(scores))}, {len(scores)})" if scores else ""
        return replace(spread_entry(method.summaries.get(rate), metric), detail=detail)

    about = "mean ± standard deviation over the runs (the median, the number of runs)"
    return Column(f"{rate:g}", formats.learning_rate(rate), about, show=show)


def draw_rates(study: StudySummary, rates: Rates) -> Drawing:
    """Draw learning rates to the right, a box for each method at each of them."""
    places = {rate: place for place, rate in enumerate(rates.all)}
    metric, count = study.format, len(rates.methods)
    width = 0.8 / count
    with styled(2.9 + 0.19 * count) as figure:
        axes = figure.add_subplot()
        for index, method in enumerate(rates.methods):
            shift = (index - (count - 1) / 2) * width
            _draw_boxes(axes, method, {rate: place + shift for rate, place in places.items()}, width, metric.factor)
        crowded = len(places) > 6
        axes.set_xticks(
            range(len(places)), [formats.learning_rate(rate) for rate in places], rotation=90 if crowded else 0
        )
        axes.set(xlabel="learning rate", ylabel=wrapped(f"{metric.label}, {average_label(rates.split)}"))
        axes.grid(axis="y", color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        what = "Runs of the search, scored on dev" if rates.searched else "Runs of the study"
        said = caption(study, rates)
        whole = (
            f"{said} {what}: boxes span the quartiles, with a line at the median; whiskers reach runs within 1.5 "
            "times the interquartile range, dots are runs beyond it."
        )
        text = f"{said} {_text(study, rates)}"
        return finish(figure, NAME, "Scores by learning rate", whole, text, NAME)


def _draw_boxes(axes: Axes, method: RateScores, places: dict[float, float], width: float, factor: int) -> None:
    style = style_of(method.place)
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
    boxes["boxes"][0].set_label(legend_label(method.label, 40))


def caption(study: StudySummary, rates: Rates) -> str:
    """Say how much the rate matters to each method, and the seed at one rate, in one sentence."""
    value, parts = study.format.value, []
    for method in rates.methods:
        medians = [median(scores) for scores in method.scores.values()]
        spreads = [stdev(scores) for scores in method.scores.values() if len(scores) > 1]
        seeds = f" and by {value(fmean(spreads))} (standard deviation) over the seeds of a rate" if spreads else ""
        parts.append(f"{method.label} varies by {value(max(medians) - min(medians))} over the rates{seeds}")
    return f"{'; '.join(parts)}."


def _text(study: StudySummary, rates: Rates) -> str:
    value = study.format.value
    parts = [
        f"{method.label} "
        + ", ".join(
            f"{value(median(scores))} at {formats.learning_rate(rate)} ({value(min(scores))} to {value(max(scores))})"
            for rate, scores in method.scores.items()
        )
        for method in rates.methods
    ]
    return f"Median {study.format.label} on {average_label(rates.split)}, lowest to highest: {'; '.join(parts)}."
