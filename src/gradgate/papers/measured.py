"""The scores of finished runs as the numbers that claims are checked on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean

from gradgate.errors import RunError
from gradgate.papers.courses import loss_rise, opening_order, rate_spreads
from gradgate.papers.labels import method_label, model_label, task_label
from gradgate.papers.numbers import (
    DEV_BEST,
    DEV_DROP,
    DEV_MEAN,
    LOSS_RISE,
    RATE_SPREAD,
    SECONDS,
    TOP_DOWN,
    Key,
    Numbers,
    Place,
)
from gradgate.report.formats import ScoreFormat
from gradgate.report.plans import read_plan
from gradgate.study.results import DEV, Cell, StudyResults
from gradgate.tasks.averages import distant_languages
from gradgate.training.folder import RunFolder

SOURCE = "en"
_AVERAGES = {"elsa": "all", "graddrop": "all", "adaptereff": "all", "fun": "target"}
"""What each paper means by its average: with the source language or without it."""
_ORDERED = "Ada+FUN"
"""The one method of a paper whose order of layers a claim is about."""


@dataclass(frozen=True)
class Measured:
    """One method of a study under the labels of a paper.

    Attributes:
        language: of a task that is trained and tested in this one alone; None where other languages count too.
        split: what is scored where that is neither the main split nor that of a language.
    """

    place: Place
    label: str
    cells: tuple[Cell, ...]
    results: StudyResults
    language: str | None = None
    split: str | None = None

    @property
    def source(self) -> str:
        """The language that it was trained in."""
        return self.language or self.results.study.task.source


def numbers_of(paper: str, rows: Iterable[Measured], stand_in: bool = False, notes: Iterable[str] = ()) -> Numbers:
    """Every score of these rows, in points where it is a share; times are in seconds."""
    scores: dict[Key, dict[int, float]] = {}
    for row in rows:
        for cell in row.cells:
            for on, value in _scores(paper, row, cell).items():
                scores.setdefault(Key(row.place, row.label, on), {})[cell.seed] = value
    return Numbers(scores, exact=False, stand_in=stand_in, notes=tuple(notes))


def numbers_of_study(paper: str, results: StudyResults) -> Numbers:
    """A study's scores under the labels of a paper.

    Where its task is none of the paper's, it stands in for all of them, and the notes say so.
    """
    study = results.study
    task = task_label(paper, study.task.name)
    size = study.settings.get("train_size")
    place = Place(model_label(paper, study.model.name), task or study.task.name, str(size) if size else "full")
    layers = layer_count(results)
    labels = {
        own: method_label(paper, method, adapter, layers)
        for (adapter, method), own in zip(study.arms, study.labels, strict=True)
    }
    notes = [] if task else [f"{study.task.name} is none of the paper's tasks and stands in for each of them"]
    if paper == "fun" and study.adapters == (None,) and len(labels) > 1:
        labels = {own: "Ada" if label == "Full-FT" else label for own, label in labels.items()}
        notes.append("the schedules open layers of the whole model here, and of adapters in the paper")
    rows = [Measured(place, label, results.of(own), results) for own, label in labels.items()]
    numbers = numbers_of(paper, rows, stand_in=task is None, notes=notes)
    spreads = {Key(place, labels[own], RATE_SPREAD): found for own, found in rate_spreads(results).items()}
    return replace(numbers, scores={**numbers.scores, **spreads})


def language_scores(row: Measured, cell: Cell, metric: str | None = None) -> dict[str, float]:
    """Language to score, as it is in the run's file; that of the main split for a task in one language.

    Args:
        metric: None for the study's own.
    """
    name = metric or row.results.study.task.metric
    values = {language: cell.metrics(split).get(name) for language, split in _splits(row).items()}
    return {language: value for language, value in values.items() if value is not None}


def _splits(row: Measured) -> dict[str, str]:
    """Language to the split that is scored in it: its test split, or that of dev where there is no test."""
    task, there = row.results.study.task, row.results.test_splits
    if row.split is not None:
        return {row.source: row.split}
    if not task.languages:
        return {row.source: row.results.main_split}
    named = {task.languages[split]: split for split in sorted(there) if split in task.languages}
    if task.source not in named and any(split.startswith(f"{DEV}.") for split in named.values()):
        named[task.source] = DEV
    if row.language is not None:
        return {row.language: named.get(task.source, row.results.main_split)}
    return named


def averages(paper: str, task: str, scores: dict[str, float], source: str = SOURCE) -> dict[str, float]:
    """Means over languages: ``all``; without the source ``target`` and ``distant``; ``avg`` is the paper's own."""
    targets = {language: score for language, score in scores.items() if language != source}
    found: dict[str, float] = {}
    if source in scores:
        found["all"] = fmean(scores.values())
    if targets:
        found["target"] = fmean(targets.values())
    far = [targets[language] for language in distant_languages(targets, "paper", task.lower())]
    if far:
        found["distant"] = fmean(far)
    if _AVERAGES[paper] in found:
        found["avg"] = found[_AVERAGES[paper]]
    return found


def _scores(paper: str, row: Measured, cell: Cell) -> dict[str, float]:
    if cell.scores is None:
        return {}
    metric = cell.scores.metric
    factor = ScoreFormat.fitting(metric).factor
    languages = {language: factor * score for language, score in language_scores(row, cell).items()}
    found = languages | averages(paper, row.place.task, languages, row.source)
    found[SECONDS] = cell.scores.cost.seconds_per_step
    history = [factor * record.metrics[metric] for record in cell.history if metric in record.metrics]
    if len(history) > 1:
        found |= {DEV_MEAN: fmean(history), DEV_BEST: max(history), DEV_DROP: max(history) - history[-1]}
    own = {LOSS_RISE: loss_rise(cell), TOP_DOWN: opening_order(cell) if row.label == _ORDERED else None}
    return found | {name: value for name, value in own.items() if value is not None}


def layer_count(results: StudyResults) -> int | None:
    """How many layers the model has; None where no run has a readable plan."""
    sizes = group_sizes(results)
    return sum(name.startswith("layers.") for name in sizes) if sizes else None


def group_sizes(results: StudyResults) -> dict[str, int]:
    """The model's groups with their numbers of parameters, by the plan of any finished run; empty without one."""
    for cell in results.cells:
        if cell.folder is not None and cell.scores is not None:
            with suppress(RunError):
                return read_plan(RunFolder(cell.folder).plan_file).sizes
    return {}
