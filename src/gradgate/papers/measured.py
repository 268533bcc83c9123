"""The scores of finished runs as the numbers that claims are checked on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean

from gradgate.errors import RunError
from gradgate.papers.labels import method_label, model_label, task_label
from gradgate.papers.numbers import DEV_BEST, DEV_DROP, DEV_MEAN, SECONDS, Key, Numbers, Place
from gradgate.report.formats import ScoreFormat
from gradgate.report.plans import read_plan
from gradgate.study.results import Cell, StudyResults
from gradgate.training.folder import RunFolder

SOURCE = "en"
_AVERAGES = {"elsa": "all", "graddrop": "all", "adaptereff": "all", "fun": "target"}
"""What each paper means by its average: with the source language or without it."""


@dataclass(frozen=True)
class Measured:
    """One method of a study under the labels of a paper. ``language``: of a task that has no other."""

    place: Place
    label: str
    cells: tuple[Cell, ...]
    results: StudyResults
    language: str = SOURCE


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
    return numbers_of(paper, rows, stand_in=task is None, notes=notes)


def language_scores(row: Measured, cell: Cell, metric: str | None = None) -> dict[str, float]:
    """Language to score, as it is in the run's file; that of the main split for a task in one language.

    Args:
        metric: None for the study's own.
    """
    results = row.results
    splits = [split for split in results.test_splits if split.startswith("test.") and len(split) == len("test.xx")]
    named = {split.removeprefix("test."): split for split in splits} or {row.language: results.main_split}
    name = metric or results.study.task.metric
    values = {language: cell.metrics(split).get(name) for language, split in named.items()}
    return {language: value for language, value in values.items() if value is not None}


def averages(paper: str, task: str, scores: dict[str, float]) -> dict[str, float]:
    """Means over languages: ``all``; without English ``target`` and ``distant``; ``avg`` is the paper's own."""
    targets = {language: score for language, score in scores.items() if language != SOURCE}
    found: dict[str, float] = {}
    if SOURCE in scores or len(scores) == 1:
        found["all"] = fmean(scores.values())
    if targets and SOURCE in scores:
        found["target"] = fmean(targets.values())
        distant = [score for language, score in targets.items() if language in _distant(task, targets)]
        if distant:
            found["distant"] = fmean(distant)
    if _AVERAGES[paper] in found:
        found["avg"] = found[_AVERAGES[paper]]
    return found


def _distant(task: str, languages: Iterable[str]) -> set[str]:
    also = {"el", "ur"} if task == "XNLI" else set()
    return {language for language in languages if language not in _INDO_EUROPEAN or language in also}


# Of the papers' languages. Of the printed averages, those on XNLI count Greek and Urdu as distant.
_INDO_EUROPEAN = {
    "af",
    "bg",
    "bn",
    "da",
    "de",
    "el",
    "en",
    "es",
    "fa",
    "fr",
    "hi",
    "it",
    "mr",
    "nl",
    "pl",
    "pt",
    "ru",
    "ur",
}


def _scores(paper: str, row: Measured, cell: Cell) -> dict[str, float]:
    if cell.scores is None:
        return {}
    metric = cell.scores.metric
    factor = ScoreFormat.fitting(metric).factor
    languages = {language: factor * score for language, score in language_scores(row, cell).items()}
    found = languages | averages(paper, row.place.task, languages)
    found[SECONDS] = cell.scores.cost.seconds_per_step
    history = [factor * record.metrics[metric] for record in cell.history if metric in record.metrics]
    if len(history) > 1:
        found |= {DEV_MEAN: fmean(history), DEV_BEST: max(history), DEV_DROP: max(history) - history[-1]}
    return found


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
