"""A study's cells as plain records, for scripts."""

from __future__ import annotations

from typing import Any

from gradgate.study.results import Cell, StudyResults


def records(results: StudyResults) -> list[dict[str, Any]]:
    """One record for each method and seed, in the study's order.

    ``score`` is the study's metric on its main test split (on dev where there is none) and None for a run that has
    not finished; ``scores`` has every metric of every split; ``error`` says why a run failed.
    """
    return [_record(cell, results) for cell in results.cells]


def _record(cell: Cell, results: StudyResults) -> dict[str, Any]:
    splits = ("dev", *results.test_splits, *results.averages)
    return {
        "task": results.study.task.name,
        "model": results.study.model.name,
        "method": cell.method,
        "seed": cell.seed,
        "status": cell.status,
        "metric": results.study.task.metric,
        "split": results.main_split,
        "score": cell.score(results.main_split),
        "scores": {split: cell.metrics(split) for split in splits if cell.metrics(split)},
        "error": cell.failure.message if cell.failure else None,
    }
