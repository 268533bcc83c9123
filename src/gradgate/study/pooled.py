"""Read a study of several tasks or models as one study whose test splits are its conditions.

The score of a run on a condition is its score on the condition's own main split; their mean is the run's average. A run
has finished if it has finished on every condition, so that all means are over the same tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from gradgate.errors import RunError
from gradgate.runs.records import DEV, Failure, ModelRecord, TaskRecord
from gradgate.runs.scores import Cost, Scores
from gradgate.runs.state import RunState
from gradgate.settings.arms.arm import Arm
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.study.conditions import Conditions, condition_folders, condition_names, read_conditions, short_names
from gradgate.study.results import COMBINATION, MODEL, SIZE, TASK, StudyResults, read_study
from gradgate.study.run_result import NO_HISTORY, RunResult
from gradgate.study.study_file import StudyRecord

MIXED_METRIC = {True: "score", False: "error"}
"""The name of scores of tasks with different metrics, by whether higher is better."""


def read_pooled(folder: Path) -> StudyResults:
    """Read a study folder of any number of tasks, models and training sizes.

    Raises:
        RunError: if it holds no study, or a file of it is damaged.
    """
    named = read_conditions(folder)
    if named is None:
        return read_study(folder)
    parts, problems = _read_parts(folder)
    studies = [part.study for part in parts]
    names = condition_names(
        [study.task.name for study in studies],
        [study.model.name for study in studies],
        [study.train_size for study in studies],
    )
    whole = pool(folder, _unit(named), list(zip(names, parts, strict=True)))
    begun = len(parts) + len(problems)
    lacking = len(named.paths(folder)) - begun
    if lacking and whole.study.imported is None:
        problems.append(
            f"{lacking} of {lacking + begun} {whole.split_unit}s have not started: run the command that added them."
        )
    return replace(whole, problems=(*problems, *whole.problems))


def _read_parts(folder: Path) -> tuple[list[StudyResults], list[str]]:
    """Read the results of every part, and say what is wrong with those that cannot be read.

    Raises:
        RunError: if none can be read.
    """
    parts, errors = [], []
    for path in condition_folders(folder):
        try:
            parts.append(read_study(path))
        except RunError as error:
            errors.append(error)
    if not parts:
        raise errors[0]
    return parts, [f"A part of this study is left out: {error}" for error in errors]


def pool(folder: Path, unit: str, parts: Sequence[tuple[str, StudyResults]]) -> StudyResults:
    """Pool the results of several parts as those of one study.

    Args:
        folder: of the whole study.
        unit: what a part is: ``"task"``, ``"model"``, ``"training size"``, or ``"combination"`` of these.
        parts: name and results of each; the first one decides which methods are compared to which.

    Raises:
        RunError: without a part.
    """
    if not parts:
        raise RunError(
            f"{folder} has no part of a study. Name the folder of a comparison over several tasks or models."
        )
    tasks = [part.study.task for _, part in parts]
    metrics = {task.metric for task in tasks}
    directions = {task.metric_higher_is_better for task in tasks}
    metric = metrics.pop() if len(metrics) == 1 else MIXED_METRIC[tasks[0].metric_higher_is_better]
    average = f"mean over {unit}s"
    study = _study([part.study for _, part in parts], [name for name, _ in parts], unit, metric)
    cells = [
        _pooled_cell(arm, seed, [(name, part, _cell(part, arm.name, seed)) for name, part in parts], metric, average)
        for arm in study.arms
        for seed in study.seeds
    ]
    if study.imported is not None and (_is_ragged(cells) or len(directions) > 1):
        cells = [RunResult(cell.arm, cell.seed) for cell in cells]
    return StudyResults(
        folder,
        study,
        tuple(cells),
        tuple(name for name, _ in parts),
        tuple(f"{name}: {problem}" for name, part in parts for problem in part.problems),
        (average,),
        unit,
        tuple(parts),
    )


def _is_ragged(cells: Sequence[RunResult]) -> bool:
    """Return True if some arm has no score over all parts: a mean over parts would compare the others alone."""
    return {cell.arm for cell in cells} != {cell.arm for cell in cells if cell.scores is not None}


def _unit(conditions: Conditions) -> str:
    axes = {TASK: conditions.tasks, MODEL: conditions.models, SIZE: conditions.train_sizes}
    several = [unit for unit, values in axes.items() if len(values) > 1]
    return several[0] if len(several) == 1 else COMBINATION


def _study(parts: list[StudyRecord], names: list[str], unit: str, metric: str) -> StudyRecord:
    """Return what all parts share, and the data of each."""
    first = parts[0]
    tasks = list(dict.fromkeys(part.task.name for part in parts))
    models = {part.model.name: part.model for part in parts}
    largest = max(models.values(), key=lambda model: model.parameters)
    named = list(zip(names, parts, strict=True))
    settings = {name: value for name, value in first.settings.items() if all(_has(p, name, value) for p in parts)}
    return StudyRecord(
        task=TaskRecord(
            name=", ".join(tasks),
            kind=f"{len(parts)} {unit}s",
            metric=metric,
            metric_higher_is_better=first.task.metric_higher_is_better,
            fingerprint=", ".join(f"{name} {(part.task.fingerprint or 'unknown')[:12]}" for name, part in named),
            rows={f"{name}, {split}": rows for name, part in named for split, rows in part.task.rows.items()},
            split="; ".join(f"{name}: {part.task.split}" for name, part in named if part.task.split) or None,
        ),
        model=ModelRecord(", ".join(short_names(list(models)).values()), largest.parameters),
        methods=_in_one_order([part.methods for part in parts]),
        seeds=tuple(dict.fromkeys(seed for part in parts for seed in part.seeds)),
        settings=settings,
        versions=first.versions,
        adapters=first.adapters,
        variants=first.variants,
        imported=first.imported,
    )


def _in_one_order(orders: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the methods of all parts, so that the reference is first even if some part lacks it."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for order in orders:
        sorter.add(order[0])
        for before, after in pairwise(order):
            sorter.add(after, before)
    try:
        return tuple(sorter.static_order())
    except CycleError:
        return tuple(dict.fromkeys(method for order in orders for method in order))


def _has(study: StudyRecord, name: str, value: Any) -> bool:
    return name in study.settings and bool(study.settings[name] == value)


def _cell(part: StudyResults, label: str, seed: int) -> RunResult | None:
    return next((cell for cell in part.of(label) if cell.seed == seed), None)


def _pooled_cell(
    arm: Arm, seed: int, found: list[tuple[str, StudyResults, RunResult | None]], metric: str, average: str
) -> RunResult:
    first = next((cell for _, _, cell in found if cell is not None), RunResult(arm, seed))
    plain = replace(first, state=RunState.MISSING, folder=None, scores=None, failure=None, **NO_HISTORY)
    failed = [(name, cell.failure) for name, _, cell in found if cell is not None and cell.failure is not None]
    if failed:
        reasons = "; ".join(f"{name}: {failure.message}" for name, failure in failed)
        return replace(plain, state=RunState.FAILED, failure=Failure(failed[0][1].type, reasons))
    cells = [(name, part.main_split, cell) for name, part, cell in found if cell is not None and cell.scores]
    if len(cells) < len(found):
        return plain
    tests = {name: _number(cell.score(split)) for name, split, cell in cells}
    scores = Scores(
        metric=metric,
        best_step=None,
        dev=_mean_dev([cell.score(DEV) for _, _, cell in cells], metric),
        tests={name: {metric: score} for name, score in tests.items()},
        cost=_pooled_cost([cell.scores.cost for _, _, cell in cells if cell.scores]),
        averages={average: {metric: fmean(tests.values())}},
        forgetting=_pooled_forgetting([cell.scores.forgetting for _, _, cell in cells if cell.scores]),
    )
    return replace(plain, state=RunState.FINISHED, scores=scores)


def _pooled_forgetting(records: list[ForgettingRecord | None]) -> ForgettingRecord | None:
    """Return the means if all parts have measured the same; otherwise None."""
    found = [record for record in records if record is not None]
    if not found or len(found) < len(records) or len({(record.file, record.metric) for record in found}) > 1:
        return None
    before, after = (fmean(getattr(record, name) for record in found) for name in ("before", "after"))
    tokens = [record.tokens for record in found if record.tokens is not None]
    return ForgettingRecord(
        file=found[0].file,
        fingerprint=", ".join(dict.fromkeys(record.fingerprint for record in found)),
        metric=found[0].metric,
        higher_is_better=found[0].higher_is_better,
        before=before,
        after=after,
        difference=after - before,
        tokens=round(fmean(tokens)) if tokens else None,
        rows=found[0].rows,
    )


def _mean_dev(scores: list[float | None], metric: str) -> dict[str, float]:
    """Return the mean on dev; nothing if a part has no dev, as imported ones may have none."""
    known = [score for score in scores if score is not None]
    return {metric: fmean(known)} if len(known) == len(scores) else {}


def _number(score: float | None) -> float:
    assert score is not None  # read_study has made a failure of a run without
    return score


def _pooled_cost(costs: list[Cost]) -> Cost:
    """Return sums of steps and seconds, means of rates and shares, and the largest of sizes."""
    return Cost(
        steps=_over(sum, [cost.steps for cost in costs]),
        seconds_per_step=_over(fmean, [cost.seconds_per_step for cost in costs]),
        seconds_total=_over(sum, [cost.seconds_total for cost in costs]),
        trainable_share=_over(fmean, [cost.trainable_share for cost in costs]),
        parameters=_over(max, [cost.parameters for cost in costs]),
        parameters_trained=_over(max, [cost.parameters_trained for cost in costs]),
        device=", ".join(dict.fromkeys(cost.device for cost in costs)),
        peak_memory_bytes=_over(max, [cost.peak_memory_bytes for cost in costs if cost.peak_memory_bytes is not None]),
        bytes_stored=_mean_bytes([cost.bytes_stored for cost in costs if cost.bytes_stored is not None]),
        files=max((cost.files for cost in costs if cost.files), key=lambda files: files.stored, default=None),
    )


def _over(summary: Callable[[list[Any]], Any], values: Sequence[float | None]) -> Any:
    """Return the summary of the values; None if one is unknown, or there is none."""
    return None if None in values or not values else summary(list(values))


def _mean_bytes(stored: list[int]) -> int | None:
    return round(fmean(stored)) if stored else None
