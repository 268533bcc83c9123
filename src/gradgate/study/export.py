"""A study's cells as plain records, for scripts."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from gradgate.study.parts import part_folders
from gradgate.study.results import Cell, StudyResults, read_study


def records(folder: Path) -> list[dict[str, Any]]:
    """One record for each task, model, training size, adapter, method and seed of a study, in its order.

    ``train_size`` is None where all rows are trained on. ``score`` is the study's metric on its main test split (on dev
    where there is none) and None for a run that has not finished; ``scores`` has every metric of every split;
    ``error`` says why a run failed.
    """
    parts = [read_study(part) for part in part_folders(folder)]
    return [_record(cell, results) for results in parts for cell in results.cells]


def _record(cell: Cell, results: StudyResults) -> dict[str, Any]:
    splits = ("dev", *results.test_splits, *results.averages)
    return {
        "task": results.study.task.name,
        "model": results.study.model.name,
        "train_size": results.study.train_size,
        "method": cell.method,
        "adapter": cell.adapter,
        "seed": cell.seed,
        "status": cell.status,
        "metric": results.study.task.metric,
        "split": results.main_split,
        "score": cell.score(results.main_split),
        "scores": {split: cell.metrics(split) for split in splits if cell.metrics(split)},
        "error": cell.failure.message if cell.failure else None,
    }


def as_table(records: list[dict[str, Any]]) -> str:
    """The same as CSV; ``scores`` becomes one column for each split and metric, as ``test.accuracy``."""
    rows = []
    for record in records:
        row = {name: value for name, value in record.items() if name != "scores"}
        scores = record["scores"].items()
        rows.append(row | {f"{split}.{name}": value for split, values in scores for name, value in values.items()})
    columns = dict.fromkeys(name for row in rows for name in row)
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
