"""Scores by learning rate, where a study has several: in its search, or in adapters that differ in nothing else.

He et al. 2021, Sec. 5 and Fig. 4: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_below, legend_label, look, styled, wrapped
from gradgate.report.findings import Findings
from gradgate.report.formats import NONE
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Table, spread_entry, spread_record
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import DEV, comparable
from gradgate.settings.recorded import arm_of_texts
from gradgate.study.results import StudyResults
from gradgate.tasks.languages import average_label

_ByRate = dict[float, list[float]]


@dataclass(frozen=True)
class RateScores:
    """The scores of one method, and adapter, at each learning rate, in ascending order of the rates.

    Attributes:
        place: that of its first arm in the study, which gives its colour.
    """

    label: str
    place: int
    scores: dict[float, tuple[float, ...]]


@dataclass(frozen=True)
class Rates:
    """What is known of learning rates. ``searched``: on dev, by a search; else on the main split, by the study."""

    methods: tuple[RateScores, ...]
    split: str
    searched: bool

    @property
    def all(self) -> tuple[float, ...]:
        """Every rate in ascending order."""
        return tuple(sorted({rate for method in self.methods for rate in method.scores}))


@dataclass(frozen=True)
class RatesSection(Section):
    """Scores by learning rate."""

    rates: Rates

    @classmethod
    def find(cls, findings: Findings) -> RatesSection | None:
        """None for a study of one learning rate."""
        rates = find_rates(findings)
        return cls(findings, rates) if rates else None

    def tables(self) -> list[Table]:
        """One row a method, one column a rate."""
        return [rate_table(self.findings, self.rates)]

    def drawings(self) -> list[Drawing]:
        """A box for each method at each rate."""
        return [draw_rates(self.findings, self.rates)] if self.findings.scored else []


def find_rates(findings: Findings) -> Rates | None:
    """Scores by learning rate; None unless some method has two rates or more."""
    for found, split, searched in (
        (_searched(findings), DEV, True),
        (_of_adapters(findings), findings.split, False),
    ):
        methods = tuple(method for method in found if len(method.scores) > 1)
        if methods:
            return Rates(methods, split, searched)
    return None


@dataclass(frozen=True)
class SearchedRun:
    """One finished run of a search: its label, its configuration and its score on dev."""

    label: str
    config: dict[str, Any]
    score: float


def searched_runs(results: StudyResults, metric: str) -> list[SearchedRun]:
    """The runs of a search, each in a folder of its own below ``search``, that have a finite score."""
    found = []
    for path in sorted(results.folder.glob("search/*/*/seed-*/scores.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):  # what is damaged has no score
            config = json.loads(RunFolder(path.parent).run_file.read_bytes())["config"]
            arm = arm_of_texts(config["method"], config.get("adapter"))
            run = SearchedRun(arm.name, config, _dev_score(path, metric))
            if comparable(run.score) and float(config["lr"]) > 0:
                found.append(run)
    return found


def _searched(findings: Findings) -> list[RateScores]:
    """The arms of the study in their order, then others that were searched."""
    found: dict[str, _ByRate] = {label: defaultdict(list) for label in findings.results.study.arm_names}
    for run in searched_runs(findings.results, findings.format.metric):
        found.setdefault(run.label, defaultdict(list))[float(run.config["lr"])].append(run.score)
    return [_rate_scores(label, place, scores) for place, (label, scores) in enumerate(found.items())]


def _rate_scores(label: str, place: int, scores: _ByRate) -> RateScores:
    return RateScores(label, place, {rate: tuple(scores[rate]) for rate in sorted(scores)})


def _dev_score(path: Path, metric: str) -> float:
    return float(json.loads(path.read_bytes())["dev"][metric])


def _of_adapters(findings: Findings) -> list[RateScores]:
    """Return the scores of arms that differ in their own learning rate alone."""
    found: dict[str, _ByRate] = defaultdict(lambda: defaultdict(list))
    places: dict[str, int] = {}
    shared = findings.results.study.settings.get("lr")
    for cell in findings.results.cells:
        score = cell.score(findings.split)
        rate = shared if cell.arm.lr is None else cell.arm.lr
        if score is not None and isinstance(rate, int | float):
            label = cell.arm.without_settings().name
            found[label][float(rate)].append(score)
            places.setdefault(label, findings.results.study.arm_names.index(cell.arm.name))
    return [_rate_scores(label, places[label], scores) for label, scores in found.items()]


def rate_table(findings: Findings, rates: Rates) -> Table:
    """One row a method, one column a learning rate."""
    metric = findings.format
    about = "mean ± standard deviation over the runs (the median, the number of runs)"
    return Table(
        "learning-rates",
        f"Learning rates: {metric.label}, {average_label(rates.split)}",
        (
            Column("method", "Method", numeric=False),
            *(Column(f"{rate:g}", formats.learning_rate(rate), about) for rate in rates.all),
        ),
        tuple(
            (
                Entry(method.label, method.label),
                *(_entry(findings, method.scores.get(rate, ())) for rate in rates.all),
            )
            for method in rates.methods
        ),
        tuple(
            {
                "method": method.label,
                "lr": rate,
                "split": rates.split,
                "metric": metric.metric,
                **spread_record(list(scores)),
                "median": median(scores),
                "lowest": min(scores),
                "highest": max(scores),
            }
            for method in rates.methods
            for rate, scores in method.scores.items()
        ),
    )


def _entry(findings: Findings, scores: tuple[float, ...]) -> Entry:
    if not scores:
        return Entry(NONE)
    shown = spread_entry(list(scores), findings.format)
    return Entry(shown.text, shown.value, f"({findings.format.value(median(scores))}, {len(scores)})")


def draw_rates(findings: Findings, rates: Rates) -> Drawing:
    """Learning rates to the right, a box for each method at each of them."""
    places = {rate: place for place, rate in enumerate(rates.all)}
    metric, count = findings.format, len(rates.methods)
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
        legend_below(figure)
        what = "Runs of the search, scored on dev" if rates.searched else "Runs of the study"
        caption = (
            f"{seen(findings, rates)} {what}: boxes from the lower to the upper quartile, with the median as a line; "
            f"whiskers reach the runs within 1.5 of their height, dots are runs beyond."
        )
        text = f"{seen(findings, rates)} {_text(findings, rates)}"
        return finish(figure, "learning-rates", "Scores by learning rate", caption, text, "learning-rates")


def _draw_boxes(axes: Axes, method: RateScores, places: dict[float, float], width: float, factor: int) -> None:
    style = look(method.place)
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


def seen(findings: Findings, rates: Rates) -> str:
    """How much the rate matters to each method, and the seed at one rate, in one sentence."""
    value, parts = findings.format.value, []
    for method in rates.methods:
        medians = [median(scores) for scores in method.scores.values()]
        spreads = [stdev(scores) for scores in method.scores.values() if len(scores) > 1]
        seeds = f" and over the seeds of a rate by {value(fmean(spreads))} (standard deviation)" if spreads else ""
        parts.append(f"{method.label} varies over the rates by {value(max(medians) - min(medians))}{seeds}")
    return f"{'; '.join(parts)}."


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
