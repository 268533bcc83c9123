"""Read the scores of a study, or of one of its arms, under the labels of a paper."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from statistics import fmean, stdev

from scipy import stats

from gradgate.analysis.fisher import FEWEST_LAYERS
from gradgate.errors import RunError
from gradgate.methods.plan_file import read_timeline
from gradgate.methods.timeline import Timeline
from gradgate.papers.analyzed import analyzed_quantities, schedule_correlations, tracked_quantities
from gradgate.papers.arms import arm_labels, model_label, table_entry, task_label, whole_model
from gradgate.papers.claims.adaptereff import BEST_SIZE
from gradgate.papers.claims.numbers import (
    DEV_BEST,
    DEV_DROP,
    DEV_MEAN,
    LOSS_RISE,
    NOT_PAIRED,
    SCHEDULES,
    SEARCH_SEEDS,
    SECONDS,
    SEED_SPREAD,
    TOP_DOWN,
    Key,
    Numbers,
    Place,
)
from gradgate.report.formats import ScoreFormat
from gradgate.report.sections.from_papers.learning_rates import searched_runs
from gradgate.report.study_summary import summarize_study
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import DEV
from gradgate.settings.arms.own_settings import OWN_SETTINGS
from gradgate.study.importing.columns import UNPAIRED
from gradgate.study.results import StudyResults
from gradgate.study.run_result import RunResult
from gradgate.tasks.languages import distant_languages
from gradgate.tasks.types import ORIGINAL_DEV, TEST

SOURCE = "en"
_AVERAGES = {"elsa": "all", "graddrop": "all", "adaptereff": "all", "fun": "target"}
"""The average that each paper reports: with the source language or without it."""
_SIZES = ("Adapter-64", "Adapter-128", "Adapter-256")
_ORDERED = "Ada+FUN"
"""The method of a paper whose order of layers a claim is about."""
_LAYER = "layers."


@dataclass(frozen=True)
class PaperScore:
    """One method of a study under the labels of a paper.

    Attributes:
        arm: what was run, as the study calls it.
        language: of a task that is trained and tested in only this one; None if other languages count too.
        split: the scored split, if it is neither the main split nor that of a language.
        metric: the scored metric, if it is not the study's own.
    """

    place: Place
    label: str
    arm: str
    cells: tuple[RunResult, ...]
    results: StudyResults
    language: str | None = None
    split: str | None = None
    metric: str | None = None

    @property
    def is_better_if_lower(self) -> bool:
        """Whether it is scored by a loss or an error, which no claim is about."""
        return self.metric is None and not self.results.study.task.metric_higher_is_better

    @property
    def source(self) -> str:
        """The language that it was trained in."""
        return self.language or self.results.study.task.source


def numbers_of(paper: str, rows: Iterable[PaperScore], stand_in: bool = False, notes: Iterable[str] = ()) -> Numbers:
    """Collect every score of these rows, and of AdapterEff's best sizes: shares in points, times in seconds."""
    scores: dict[Key, dict[int, float]] = {}
    arms: dict[Key, dict[str, None]] = {}
    analyzed: dict[Path, dict[tuple[str, int], dict[str, float]]] = {}
    own = list(rows)
    spreads: dict[Path, dict[str, dict[int, tuple[float, int]]]] = {}
    for row in own:
        folder = row.results.folder
        if folder not in spreads:
            spreads[folder] = seed_spreads(row.results)
        if row.arm in spreads[folder]:
            searched = spreads[folder][row.arm]
            for searched_on, by_rate in (
                (SEED_SPREAD, {rate: spread for rate, (spread, _) in searched.items()}),
                (SEARCH_SEEDS, {rate: float(seeds) for rate, (_, seeds) in searched.items()}),
            ):
                key = Key(row.place, row.label, searched_on)
                scores.setdefault(key, by_rate)
                arms.setdefault(key, {})[row.arm] = None
    if paper == "adaptereff":
        own += [replace(row, label=BEST_SIZE) for row in best_sizes(own)]
    for row in own:
        folder = row.results.folder
        analyses = analyzed.setdefault(folder, analyzed_quantities(folder) if paper == "adaptereff" else {})
        for cell in row.cells:
            found = {**_scores(paper, row, cell), **analyses.get((cell.arm.name, cell.seed), {})}
            for on, value in found.items():
                key = Key(row.place, row.label, on)
                scores.setdefault(key, {}).setdefault(cell.seed, value)
                arms.setdefault(key, {})[row.arm] = None
    return Numbers(scores, False, stand_in, tuple(notes), {key: tuple(names) for key, names in arms.items()})


def numbers_of_study(paper: str, results: StudyResults) -> Numbers:
    """Read a study's scores under the labels of a paper.

    A task that is not one of the paper's stands in for all of them, and the notes say so.
    """
    study = results.study
    task = task_label(paper, study.task.name)
    size = str(study.train_size or "full")
    place = Place(model_label(paper, study.model), task or study.task.name, size)
    labels = arm_labels(paper, study, layer_count(results))
    notes = [] if task else [f"{study.task.name} is none of the paper's tasks and stands in for each of them"]
    if paper == "fun" and whole_model(study):
        notes.append("the schedules open layers of the whole model here, and of adapters in the paper")
    if study.imported is not None and study.imported.pair == UNPAIRED:
        notes.append(NOT_PAIRED)
    split, metric = _as_in_table(paper, results)
    if split not in (None, results.main_split):
        notes.append(f"scored on {split}, as in the paper's table")
    rows = [
        PaperScore(place, label, arm, results.of(arm), results, split=split, metric=metric)
        for arm, label in labels.items()
    ]
    if any(row.is_better_if_lower for row in rows):
        notes.append(f"{study.task.metric} is better if it is lower; claims are about scores that are better if higher")
    numbers = numbers_of(paper, rows, stand_in=task is None, notes=notes)
    scores, arms = dict(numbers.scores), dict(numbers.arms)
    if paper == "fun":
        correlations, scheduled = schedule_correlations(
            (cell, _transfer(paper, row, cell)) for row in rows for cell in row.cells
        )
        for name, by_seed in correlations.items():
            scores[Key(place, SCHEDULES, name)] = by_seed
            arms[Key(place, SCHEDULES, name)] = (", ".join(scheduled),)
    return replace(numbers, scores=scores, arms=arms, source=str(results.folder))


def _as_in_table(paper: str, results: StudyResults) -> tuple[str | None, str | None]:
    """Return the split and the metric that a paper's table prints of a task, as far as the runs have them."""
    entry = table_entry(paper, results.study.task.name)
    if entry is None or results.study.task.languages:
        return None, None
    split, metric = entry.paper_task.split, entry.metric
    if split in (DEV, ORIGINAL_DEV) and results.study.settings.get("dev_size") is not None:
        split = original_dev(results)
    elif split == ORIGINAL_DEV or (split == DEV and results.study.search and results.test_splits):
        split = None  # dev picked the checkpoints, and of a search the settings too
    there = split if split == DEV or split in results.test_splits else None
    has_metric = any(metric in cell.metrics(there or results.main_split) for cell in results.cells if cell.scores)
    return there, metric if has_metric else None


def best_sizes(rows: Iterable[PaperScore]) -> list[PaperScore]:
    """Choose the adapter of each task that is best on dev among those with 64, 128 and 256 units (AdapterEff, Table 2).

    It has the highest mean dev score over the seeds that all sizes have; ties go to the smallest. Its reported scores
    come from another split, so that the choice does not depend on them.

    Returns:
        Some of the rows. A place has none if a size is absent, if several arms fit one, or if the scored split is dev
        itself.
    """
    at: dict[Place, dict[str, list[PaperScore]]] = {}
    for row in rows:
        if row.label in _SIZES and DEV not in _splits(row).values():
            at.setdefault(row.place, {}).setdefault(row.label, []).append(row)
    found = []
    for by_size in at.values():
        choices = [by_size[size][0] for size in _SIZES if len(by_size.get(size, ())) == 1]
        scores = [{cell.seed: score for cell in row.cells if (score := cell.score(DEV)) is not None} for row in choices]
        seeds = set.intersection(*map(set, scores)) if len(choices) == len(_SIZES) else set()
        if seeds:
            sign = 1 if choices[0].results.study.task.metric_higher_is_better else -1
            means = [sign * fmean(by_seed[seed] for seed in sorted(seeds)) for by_seed in scores]
            found.append(choices[means.index(max(means))])
    return found


def _transfer(paper: str, row: PaperScore, cell: RunResult) -> float | None:
    """Return the paper's average of a run; without one, the score that methods are compared on, if higher is better."""
    if cell.scores is None or row.is_better_if_lower:
        return None
    return scores_by_language(paper, row, cell).get("avg", cell.score(row.results.main_split))


def scores_by_language(paper: str, row: PaperScore, cell: RunResult, metric: str | None = None) -> dict[str, float]:
    """Return the scores of a run by language and average, as stored in its file.

    Args:
        metric: None for that of the row.

    Returns:
        Languages, then the averages of :func:`averages`. A task in one language has the score of its main split
        under that language. The score of dev stands for a source language that has no test split; an average over
        test splits leaves it out.
    """
    name = metric or row.metric or row.results.study.task.metric
    splits = _splits(row)
    values = {language: cell.metrics(split).get(name) for language, split in splits.items()}
    present = {language: value for language, value in values.items() if value is not None}
    others = {split.partition(".")[0] for language, split in splits.items() if language != row.source}
    of_one_kind = {language: score for language, score in present.items() if splits[language] != DEV or others <= {DEV}}
    return {**present, **averages(paper, row.place.task, of_one_kind, row.source)}


def _splits(row: PaperScore) -> dict[str, str]:
    """Return the split that is scored in each language: its test split, or dev if there is no test."""
    task, there = row.results.study.task, row.results.test_splits
    if row.split is not None:
        return {row.source: original_dev(row.results) if row.split in (DEV, ORIGINAL_DEV) else row.split}
    if not task.languages:
        return {row.source: row.results.main_split}
    named = {task.languages[split]: split for split in sorted(there) if split in task.languages}
    if row.language is not None:
        return {row.language: named.get(task.source, row.results.main_split)}
    return named if task.source in named or not named else {task.source: DEV, **named}


def original_dev(results: StudyResults) -> str:
    """Return the split with the task's own dev rows: a test split if runs hold out dev rows of train, else dev."""
    if results.study.settings.get("dev_size") is None:
        return DEV
    return ORIGINAL_DEV if ORIGINAL_DEV in results.test_splits else TEST


def averages(paper: str, task: str, scores: dict[str, float], source: str = SOURCE) -> dict[str, float]:
    """Average over languages: ``all``; without the source ``target`` and ``distant``; ``avg`` is the paper's own."""
    targets = {language: score for language, score in scores.items() if language != source}
    means: dict[str, float] = {}
    if source in scores:
        means["all"] = fmean(scores.values())
    if targets:
        means["target"] = fmean(targets.values())
    far = [targets[language] for language in distant_languages(targets, "paper", task.lower())]
    if far:
        means["distant"] = fmean(far)
    if _AVERAGES[paper] in means:
        means["avg"] = means[_AVERAGES[paper]]
    return means


def _scores(paper: str, row: PaperScore, cell: RunResult) -> dict[str, float]:
    if cell.scores is None:
        return {}
    metric = row.metric or cell.scores.metric
    factor = ScoreFormat.fitting(metric).factor
    found = {on: factor * score for on, score in scores_by_language(paper, row, cell).items()}
    if row.is_better_if_lower:
        found = {}
    if paper == "elsa":  # it tests in the language of training, so that others are not scores of its tasks
        found = {on: score for on, score in found.items() if len(on) != 2 or on == row.source}
    if cell.scores.cost.seconds_per_step is not None:
        found[SECONDS] = cell.scores.cost.seconds_per_step
    history = [factor * record.metrics[metric] for record in cell.history if metric in record.metrics]
    if len(history) > 1 and not row.is_better_if_lower:
        found |= {DEV_MEAN: fmean(history), DEV_BEST: max(history), DEV_DROP: max(history) - history[-1]}
    course = {
        LOSS_RISE: loss_rise(cell),
        TOP_DOWN: opening_order(cell) if row.label == _ORDERED else None,
    }
    if paper == "fun":
        course |= tracked_quantities(cell)
    return found | {name: value for name, value in course.items() if value is not None}


def seed_spreads(results: StudyResults) -> dict[str, dict[int, tuple[float, int]]]:
    """Compute the spread of dev scores over seeds at each learning rate of a search (AdapterEff, Fig. 4).

    A rate counts for a label if each seed of the search has a score, so that a failed run does not narrow the spread.
    If other settings were searched too, their mean is used.

    Returns:
        The study's label to the rank of the rate, from 0, to the standard deviation over the seeds, in points if the
        metric is a share, and their number. Empty for a search with one seed.
    """
    shown = summarize_study(results).format
    scores: dict[str, dict[float, dict[str, dict[int, float]]]] = {}
    for run in searched_runs(results, shown.metric):
        others = json.dumps({name: run.config.get(name) for name in OWN_SETTINGS if name != "lr"}, sort_keys=True)
        by_rate = scores.setdefault(run.label, {}).setdefault(float(run.config["lr"]), {})
        by_rate.setdefault(others, {})[run.config["seed"]] = run.score
    groups = [by_seed for rates in scores.values() for settings in rates.values() for by_seed in settings.values()]
    seeds = {seed for by_seed in groups for seed in by_seed}
    rates = sorted({rate for by_rate in scores.values() for rate in by_rate})
    if len(seeds) < 2:
        return {}
    spreads = {
        label: {
            rates.index(rate): (
                shown.factor * fmean(stdev(by_seed.values()) for by_seed in settings.values()),
                len(seeds),
            )
            for rate, settings in by_rate.items()
            if all(by_seed.keys() == seeds for by_seed in settings.values())
        }
        for label, by_rate in scores.items()
        if label in results.study.arm_names
    }
    return {label: by_rate for label, by_rate in spreads.items() if by_rate}


def loss_rise(cell: RunResult) -> float | None:
    """Compute the last loss on dev minus the lowest; None with fewer than two, or a loss that is not finite."""
    losses = [record.metrics["loss"] for record in cell.history if "loss" in record.metrics]
    return losses[-1] - min(losses) if len(losses) > 1 and all(map(isfinite, losses)) else None


def opening_order(cell: RunResult) -> float | None:
    """Compute :func:`closeness_to_top_down` of a run; None if its plan is unreadable."""
    if cell.folder is None:
        return None
    try:
        return closeness_to_top_down(read_timeline(RunFolder(cell.folder).plan_file))
    except RunError:
        return None


def closeness_to_top_down(plan: Timeline) -> float | None:
    """Compute Spearman's rank correlation of the steps at which layers first learned with their depths from the top.

    Layers that learn from the first step on are open by design and do not count. A layer that never learned comes
    last.

    Returns:
        1 for top-down, -1 for bottom-up; None if fewer than three layers count or all opened at the same step.
    """
    layers = [name for name in plan.groups if name.startswith(_LAYER)]
    first = dict.fromkeys(layers, plan.steps)
    for phase in reversed(plan.phases):
        first |= dict.fromkeys([name for name in (*phase.open, *phase.sparse) if name in first], phase.step)
    chosen = [name for name in layers if first[name] > 0]
    if len(chosen) < FEWEST_LAYERS or len({first[name] for name in chosen}) < 2:
        return None
    depths = [-int(name.removeprefix(_LAYER)) for name in chosen]
    return float(stats.spearmanr([first[name] for name in chosen], depths).statistic)


def layer_count(results: StudyResults) -> int | None:
    """Count the layers of the model; None if no run has a readable plan."""
    sizes = group_sizes(results)
    return sum(name.startswith(_LAYER) for name in sizes) if sizes else None


def group_sizes(results: StudyResults) -> dict[str, int]:
    """Return the model's groups with their sizes in parameters, from the plan of a finished run; empty without one."""
    for cell in results.cells:
        if cell.folder is not None and cell.scores is not None:
            with suppress(RunError):
                return read_timeline(RunFolder(cell.folder).plan_file).sizes
    return {}
