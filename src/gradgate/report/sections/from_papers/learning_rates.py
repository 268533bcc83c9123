"""Read scores by learning rate: from a search, or from arms that differ in nothing else."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gradgate.files import parse_json, read_bytes
from gradgate.report.study_summary import StudySummary
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import DEV
from gradgate.runs.scores import comparable
from gradgate.settings.arms.own_settings import format_settings
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.statistics import Summary, summarize
from gradgate.study.results import StudyResults

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

    @cached_property
    def summaries(self) -> dict[float, Summary]:
        """The scores at each rate, summarized."""
        return {rate: summarize(scores) for rate, scores in self.scores.items()}


@dataclass(frozen=True)
class Rates:
    """Scores by learning rate.

    Attributes:
        split: that the scores are on.
        searched: whether they are from a search; else from the study.
    """

    methods: tuple[RateScores, ...]
    split: str
    searched: bool

    @property
    def all(self) -> tuple[float, ...]:
        """Every rate in ascending order."""
        return tuple(sorted({rate for method in self.methods for rate in method.scores}))


def find_rates(study: StudySummary) -> Rates | None:
    """Return scores by learning rate; None unless some method has two rates or more."""
    for found, split, searched in (
        (_searched(study), DEV, True),
        (_of_arms(study), study.split, False),
    ):
        methods = tuple(method for method in found if len(method.scores) > 1)
        if methods:
            return Rates(methods, split, searched)
    return None


@dataclass(frozen=True)
class SearchScore:
    """The dev score of one run of a search, with its label and its configuration."""

    label: str
    config: dict[str, Any]
    score: float


def searched_runs(results: StudyResults, metric: str) -> list[SearchScore]:
    """Return the runs of a search with a finite score; each is in a folder of its own below ``search``."""
    found = []
    names = {arm.folder: arm.name for arm in results.study.arms}
    for path in sorted(results.folder.glob("search/*/*/seed-*/scores.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):  # what is damaged has no score
            config = parse_json(read_bytes(RunFolder(path.parent).run_file), finite=False)["config"]
            label = names.get(path.parents[2].name) or arm_of_texts(config["method"], config.get("adapter")).name
            run = SearchScore(label, config, _dev_score(path, metric))
            if comparable(run.score) and float(config["lr"]) > 0:
                found.append(run)
    return found


def _searched(study: StudySummary) -> list[RateScores]:
    """Return the arms of the study in their order, then others that were searched; each with its other settings."""
    searched = study.record.search
    others = {name for setting in (searched.settings if searched else ()) for name in setting if name != "lr"}
    found: dict[str, _ByRate] = {label: defaultdict(list) for label in study.record.arm_names}
    for run in searched_runs(study.results, study.format.metric):
        own = format_settings({name: run.config.get(name) for name in sorted(others)})
        label = f"{run.label}, {own}" if own else run.label
        found.setdefault(label, defaultdict(list))[float(run.config["lr"])].append(run.score)
    return [_rate_scores(label, place, scores) for place, (label, scores) in enumerate(found.items())]


def _rate_scores(label: str, place: int, scores: _ByRate) -> RateScores:
    return RateScores(label, place, {rate: tuple(scores[rate]) for rate in sorted(scores)})


def _dev_score(path: Path, metric: str) -> float:
    return float(parse_json(read_bytes(path), finite=False)["dev"][metric])


def _of_arms(study: StudySummary) -> list[RateScores]:
    """Return the scores of arms that differ in their own learning rate alone."""
    found: dict[str, _ByRate] = defaultdict(lambda: defaultdict(list))
    places: dict[str, int] = {}
    shared = study.record.settings.get("lr")
    for cell in study.results.cells:
        score = cell.score(study.split)
        rate = shared if cell.arm.lr is None else cell.arm.lr
        if score is not None and isinstance(rate, int | float):
            label = cell.arm.without_rate().name
            found[label][float(rate)].append(score)
            places.setdefault(label, study.record.arm_names.index(cell.arm.name))
    return [_rate_scores(label, places[label], scores) for label, scores in found.items()]
