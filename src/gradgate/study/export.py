"""Export the runs of a study as plain records for scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradgate.printable import csv_table
from gradgate.runs.records import to_json
from gradgate.study.budget.file import read_budget
from gradgate.study.conditions import condition_folders
from gradgate.study.frontier import frontier_of
from gradgate.study.results import StudyResults, read_study
from gradgate.study.run_result import RunResult

_COSTS = ("steps", "seconds_per_step", "seconds_total", "peak_memory_bytes", "trainable_share", "parameters_trained")
_NESTED = ("cost", "setting", "forgetting")


def records(folder: Path) -> list[dict[str, Any]]:
    """Return one record per task, model, training size, adapter, method and seed of a study, in its order.

    ``train_size`` is None if all rows are trained on. ``score`` is the study's metric on its main test split (on dev
    without one) and None for a run that has not finished; ``scores`` has every metric of every split; ``cost`` has
    time, memory and share of weights, and is None for a run that has not finished; ``error`` says why a run failed. If
    settings are arms, ``setting`` has those of the run's. If forgetting was measured, ``forgetting`` is that of the
    run's ``scores.json``, and ``on_frontier`` is true if no other method is as good or better in score, forgetting and
    training time, and better in one of them.
    """
    parts = [read_study(part) for part in condition_folders(folder)]
    return [
        {**_record(cell, results), **measured}
        for results in parts
        for cell, measured in zip(results.cells, _forgetting(results), strict=True)
    ]


def exported(folder: Path) -> list[dict[str, Any]] | dict[str, Any]:
    """Return the :func:`records` of a study; with a budget, ``budget``, ``verdict``, and the records as ``runs``."""
    budget = read_budget(folder)
    return records(folder) if budget is None else {**budget.record(), "runs": records(folder)}


def _forgetting(results: StudyResults) -> list[dict[str, Any]]:
    """Return further values of each run's record; none if forgetting was not measured."""
    found = [cell.scores.forgetting if cell.scores else None for cell in results.cells]
    if not any(found):
        return [{} for _ in found]
    best = frontier_of(results)
    return [
        {"forgetting": to_json(record) if record else None, "on_frontier": cell.arm.name in best}
        for cell, record in zip(results.cells, found, strict=True)
    ]


def _record(cell: RunResult, results: StudyResults) -> dict[str, Any]:
    splits = ("dev", *results.test_splits, *results.averages)
    return {
        "task": results.study.task.name,
        "model": results.study.model.name,
        "train_size": results.study.train_size,
        "method": str(cell.arm.method),
        "adapter": None if cell.arm.adapter is None else str(cell.arm.adapter),
        **({"setting": dict(cell.arm.overrides)} if cell.arm.overrides else {}),
        "seed": cell.seed,
        "status": cell.state.value,
        "metric": results.study.task.metric,
        "split": results.main_split,
        "score": cell.score(results.main_split),
        "scores": {split: cell.metrics(split) for split in splits if cell.metrics(split)},
        "cost": {name: getattr(cell.scores.cost, name) for name in _COSTS} if cell.scores else None,
        "error": cell.failure.message if cell.failure else None,
    }


def flat(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records with one value per nested one, such as ``test.accuracy``."""
    rows = []
    for record in records:
        row = {name: value for name, value in record.items() if name not in ("scores", *_NESTED)}
        row |= {f"{part}.{name}": value for part in _NESTED for name, value in (record.get(part) or {}).items()}
        scores = record["scores"].items()
        rows.append(row | {f"{split}.{name}": value for split, values in scores for name, value in values.items()})
    return rows


def as_table(records: list[dict[str, Any]]) -> str:
    """Return the :func:`flat` records as CSV."""
    return csv_table(flat(records))
