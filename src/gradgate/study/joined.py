"""A study of several tasks or models read as one, in which they stand where a study of one task has test splits.

A cell has a score on each part, that on the part's own main split, and their mean. It has finished where all parts
have, so that every mean is over the same tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from gradgate.errors import RunError
from gradgate.study.axes import Axes, part_folders, read_axes, short_names
from gradgate.study.reading import read_study
from gradgate.study.results import (
    DEV,
    Cell,
    Cost,
    Failure,
    ModelRecord,
    Scores,
    StudyRecord,
    StudyResults,
    TaskRecord,
)

MIXED_METRIC = "score"
"""The name of scores of tasks that have different metrics."""


def read_whole(folder: Path) -> StudyResults:
    """Read a study folder of any number of tasks and models.

    Raises:
        RunError: if it holds no study, or a file of it is damaged.
    """
    axes = read_axes(folder)
    if axes is None:
        return read_study(folder)
    return join(folder, _unit(axes), _named([read_study(part) for part in part_folders(folder)]))


def join(folder: Path, unit: str, parts: Sequence[tuple[str, StudyResults]]) -> StudyResults:
    """The results of several parts as those of one study.

    Args:
        folder: that the parts are in.
        unit: what a part stands for: ``"task"``, ``"model"``, or both in a ``"combination"``.
        parts: with names for people, each once; the first says which methods are compared to which.

    Raises:
        RunError: without a part.
    """
    if not parts:
        raise RunError(f"{folder} holds no part of a study.")
    named = [(name, _with_name(name, part)) for name, part in parts]
    metrics = {part.study.task.metric for _, part in named}
    metric = metrics.pop() if len(metrics) == 1 else MIXED_METRIC
    average = f"mean over {unit}s"
    study = _study([part.study for _, part in named], [name for name, _ in named], unit, metric)
    cells = [
        _joined_cell([(part, _cell(part, label, seed)) for _, part in named], metric, average)
        for label in study.labels
        for seed in study.seeds
    ]
    return StudyResults(
        folder,
        study,
        tuple(cells),
        tuple(name for name, _ in named),
        tuple(f"{name}: {problem}" for name, part in named for problem in part.problems),
        (average,),
        unit,
        tuple(named),
    )


def _unit(axes: Axes) -> str:
    if len(axes.tasks) > 1 and len(axes.models) > 1:
        return "combination"
    return "task" if len(axes.tasks) > 1 else "model"


def _named(parts: list[StudyResults]) -> list[tuple[str, StudyResults]]:
    """Each with its task, its model, or both, whichever tell them apart."""
    tasks, models = [part.study.task.name for part in parts], [part.study.model.name for part in parts]
    short = short_names(list(dict.fromkeys(models)))
    words = [
        ", ".join([*([task] if len(set(tasks)) > 1 else []), *([short[model]] if len(short) > 1 else [])]) or task
        for task, model in zip(tasks, models, strict=True)
    ]
    again = [words[:place].count(word) for place, word in enumerate(words)]  # tasks may have equal names
    return [(f"{word} ({n + 1})" if n else word, part) for word, n, part in zip(words, again, parts, strict=True)]


def _with_name(name: str, part: StudyResults) -> StudyResults:
    return replace(part, cells=tuple(replace(cell, part=name) for cell in part.cells))


def _study(parts: list[StudyRecord], names: list[str], unit: str, metric: str) -> StudyRecord:
    """What all parts share, and their data one beside the other."""
    first = parts[0]
    tasks = list(dict.fromkeys(part.task.name for part in parts))
    models = {part.model.name: part.model for part in parts}
    largest = max(models.values(), key=lambda model: model.parameters)
    named = list(zip(names, parts, strict=True))
    settings = {name: value for name, value in first.settings.items() if all(_has(p, name, value) for p in parts)}
    return StudyRecord(
        task=TaskRecord(
            ", ".join(tasks),
            f"{len(parts)} {unit}s",
            metric,
            first.task.metric_higher_is_better,
            fingerprint=", ".join(f"{name} {(part.task.fingerprint or 'unknown')[:12]}" for name, part in named),
            rows={f"{name}, {split}": rows for name, part in named for split, rows in part.task.rows.items()},
        ),
        model=ModelRecord(", ".join(short_names(list(models)).values()), largest.parameters),
        methods=first.methods,
        seeds=first.seeds,
        settings=settings,
        versions=first.versions,
        adapters=first.adapters,
    )


def _has(study: StudyRecord, name: str, value: Any) -> bool:
    return name in study.settings and bool(study.settings[name] == value)


def _cell(part: StudyResults, label: str, seed: int) -> Cell | None:
    return next((cell for cell in part.of(label) if cell.seed == seed), None)


def _joined_cell(found: list[tuple[StudyResults, Cell | None]], metric: str, average: str) -> Cell:
    there = [cell for _, cell in found if cell is not None]
    plain = replace(there[0], status="missing", folder=None, scores=None, failure=None, history=(), part="")
    failed = [(cell.part, cell.failure) for cell in there if cell.failure is not None]
    if failed:
        reasons = "; ".join(f"{part}: {failure.message}" for part, failure in failed)
        return replace(plain, status="failed", failure=Failure(failed[0][1].type, reasons))
    scores = [(part.main_split, cell) for part, cell in found if cell is not None and cell.scores is not None]
    if len(scores) < len(found):
        return plain
    return replace(plain, status="finished", scores=_joined_scores(scores, metric, average))


def _joined_scores(cells: list[tuple[str, Cell]], metric: str, average: str) -> Scores:
    dev, test = ([_number(cell.score(split or main)) for main, cell in cells] for split in (DEV, ""))
    return Scores(
        metric,
        best_step=sum(cell.scores.best_step for _, cell in cells if cell.scores),
        dev={metric: fmean(dev)},
        tests={cell.part: {metric: score} for (_, cell), score in zip(cells, test, strict=True)},
        cost=_joined_cost([cell.scores.cost for _, cell in cells if cell.scores]),
        averages={average: {metric: fmean(test)}},
    )


def _number(score: float | None) -> float:
    assert score is not None  # read_study has made a failure of a run without
    return score


def _joined_cost(costs: list[Cost]) -> Cost:
    """Sums of steps and seconds, means of what is of one step or one task, the highest of sizes."""
    memory = [cost.peak_memory_bytes for cost in costs if cost.peak_memory_bytes is not None]
    stored = [cost.bytes_stored for cost in costs if cost.bytes_stored is not None]
    return Cost(
        steps=sum(cost.steps for cost in costs),
        seconds_per_step=fmean(cost.seconds_per_step for cost in costs),
        seconds_total=sum(cost.seconds_total for cost in costs),
        trainable_share=fmean(cost.trainable_share for cost in costs),
        parameters=max(cost.parameters for cost in costs),
        parameters_trained=max(cost.parameters_trained for cost in costs),
        device=", ".join(dict.fromkeys(cost.device for cost in costs)),
        peak_memory_bytes=max(memory, default=None),
        bytes_stored=round(fmean(stored)) if stored else None,
    )
