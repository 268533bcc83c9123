"""A paper's labels for our methods, models and tasks, for studies that were not made from a preset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean, stdev

from scipy import stats

from gradgate.errors import MethodError, RunError
from gradgate.methods import Freeze, Full, Head
from gradgate.methods import method as read_method
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
from gradgate.papers.preset import presets
from gradgate.report.findings import find
from gradgate.report.formats import ScoreFormat
from gradgate.report.plans import WrittenPlan, read_plan
from gradgate.report.sections.rates import searched_runs
from gradgate.study.search import SEARCHED
from gradgate.study.study_file import DEV, Cell, StudyResults
from gradgate.tasks.languages import distant_languages
from gradgate.training.run_folder import RunFolder

_GRADDROP = {
    "full": "SFT",
    "graddrop": "GradDrop",
    "anneal-graddrop": "Anneal-GradDrop",
    "anneal-layer-graddrop": "Anneal-Layer-GradDrop",
    "layer-graddrop": "Layer-GradDrop",
    "graddrop-epoch": "GradDrop-Epoch",
}
_FUN = {"full": "Ada", "random": "Ada+Rand", "fun": "Ada+FUN", "lpft": "Ada+LPFT"}


def method_label(paper: str, method: str, adapter: str | None, layers: int | None) -> str:
    """What a paper calls a method; the method's own text where the paper has none such.

    Args:
        paper: its key.
        layers: of the model; None where that is not known.
    """
    try:
        parsed = read_method(method)
    except MethodError:
        return method
    order = getattr(parsed, "order", "top-down")
    if paper == "elsa" and adapter is None:
        return _elsa(parsed, layers) or method
    if paper == "graddrop" and adapter is None:
        if parsed.name == "gradfreeze":
            return "GradFreeze-TopDown" if order == "top-down" else "GradFreeze-BottomUp"
        return _GRADDROP.get(parsed.name, method)
    if paper == "fun":
        if parsed.name == "gradual":
            return "Ada+GU" if order == "top-down" else "Ada+GU-rev"
        return "Full-FT" if adapter is None and parsed == Full() else _FUN.get(parsed.name, method)
    if paper == "adaptereff":
        return _adaptereff(parsed.name, adapter) or method
    return method


def model_label(paper: str, model: str) -> str:
    """What a paper calls a model of the hub; else its own name."""
    for preset in presets().values():
        if preset.paper == paper:
            for label, known in preset.models.items():
                if known.name is not None and known.name.split("/")[-1] == model.split("/")[-1]:
                    return label
    return model


def task_label(paper: str, task: str) -> str | None:
    """What a paper calls a task of the catalogue; None where it has none such."""
    for preset in presets().values():
        if preset.paper == paper:
            for label, known in preset.tasks.items():
                if known.task == task:
                    return known.published or label
    return None


def _elsa(method: object, layers: int | None) -> str | None:
    if method == Full():
        return "baseline"
    if layers is not None and isinstance(method, Freeze | Head):
        return f"frozen {method.layers if isinstance(method, Freeze) else layers}/{layers}"
    return None


def _adaptereff(method: str, adapter: str | None) -> str | None:
    size = re.search(r"\bsize=(\d+)", adapter or "")
    base = "Fine-tune" if adapter is None else f"Adapter-{size[1] if size else 64}"
    return {"full": base, "mixout": f"{base}+mixout"}.get(method)


_LAYER = "layers."


def rate_spreads(results: StudyResults) -> dict[str, dict[int, float]]:
    """Of each label of a study that searched learning rates: search seed to the deviation of dev over the rates.

    Only seeds with a score at every rate that any label was tried with count, so that a run that failed narrows
    nothing. Where other settings were searched too, it is the mean over them. In points where the metric is a share.
    """
    shown = find(results).format
    scores: dict[str, dict[tuple[int, str], dict[float, float]]] = {}
    for run in searched_runs(results, shown.metric):
        others = {name: run.config.get(name) for name in SEARCHED if name != "lr"}
        key = run.config["seed"], json.dumps(others, sort_keys=True)
        scores.setdefault(run.label, {}).setdefault(key, {})[float(run.config["lr"])] = run.score
    rates = {rate for tried in scores.values() for by_rate in tried.values() for rate in by_rate}
    spreads: dict[str, dict[int, float]] = {}
    if len(rates) < 2:
        return spreads
    for label, tried in scores.items():
        whole = {key: stdev(by_rate.values()) for key, by_rate in tried.items() if by_rate.keys() == rates}
        seeds = {seed for seed, _ in tried if all(key in whole for key in tried if key[0] == seed)}
        if label in results.study.labels and seeds:
            means = {seed: fmean(whole[key] for key in tried if key[0] == seed) for seed in sorted(seeds)}
            spreads[label] = {seed: shown.factor * mean for seed, mean in means.items()}
    return spreads


def loss_rise(cell: Cell) -> float | None:
    """How far the last loss on dev is above the lowest; None with fewer than two, or one that is not finite."""
    losses = [record.metrics["loss"] for record in cell.history if "loss" in record.metrics]
    return losses[-1] - min(losses) if len(losses) > 1 and all(map(isfinite, losses)) else None


def opening_order(cell: Cell) -> float | None:
    """:func:`closeness_to_top_down` of a run; None where its plan cannot be read."""
    if cell.folder is None:
        return None
    try:
        return closeness_to_top_down(read_plan(RunFolder(cell.folder).plan_file))
    except RunError:
        return None


def closeness_to_top_down(plan: WrittenPlan) -> float | None:
    """Kendall's rank correlation of the steps at which layers first learned with their depths from the top.

    Returns:
        1 for top-down, -1 for bottom-up; None where all layers opened at the same step. A layer that
        never opened comes last.
    """
    layers = [name for name in plan.groups if name.startswith(_LAYER)]
    first = dict.fromkeys(layers, plan.steps)
    for phase in reversed(plan.phases):
        first |= dict.fromkeys([name for name in (*phase.open, *phase.sparse) if name in first], phase.step)
    if len(set(first.values())) < 2:
        return None
    depths = [-int(name.removeprefix(_LAYER)) for name in layers]
    return float(stats.kendalltau([first[name] for name in layers], depths).statistic)


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
