"""Learning curves of finished studies, as one CSV file with a row for each run and evaluation on dev."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import DataError
from gradgate.files import remedy
from gradgate.study.observed import losses
from gradgate.study.parts import part_folders
from gradgate.study.results import Cell, StudyResults, read_study
from gradgate.training.adapter_setting import read_adapter

CUT, SQUEEZED = "cut", "squeezed"
"""Schedules of short runs: the whole one, of which they see the beginning, or one that ends with them."""


@dataclass(frozen=True, kw_only=True)
class CurveRow:
    """One evaluation of one run.

    Attributes:
        arm: method, adapter and rate.
        step: optimizer steps done, of ``of_steps``.
        dev: the task's metric on dev; None in the last row of a run that failed or that was not evaluated there.
        test: on the main test split, by the checkpoint with the best dev score; in the last row alone.
        seconds: of the whole training; in the last row alone.
        schedule: ``cut`` or ``squeezed``.
        better: ``higher`` or ``lower`` scores.
        dev_loss: the loss on dev; None where it is not known.
    """

    task: str
    model: str
    arm: str
    method: str
    adapter: str | None
    lr: float | None
    seed: int
    step: int
    of_steps: int
    dev: float | None = None
    test: float | None = None
    seconds: float | None = None
    schedule: str = CUT
    metric: str = ""
    better: str = "higher"
    dev_loss: float | None = None


_ROW = TypeAdapter(CurveRow)
_OPTIONAL = 4  # columns at the end, from ``schedule`` on


def study_rows(folder: Path) -> list[CurveRow]:
    """The curves of all runs of a study that have finished or failed, in its order.

    Raises:
        RunError: if the folder holds no study.
    """
    return [row for part in part_folders(folder) for row in _rows_of(read_study(part))]


def _rows_of(results: StudyResults) -> Iterator[CurveRow]:
    lengths = [cell.scores.cost.steps for cell in results.cells if cell.scores]
    for cell in results.cells:
        shared = _shared(cell, results)
        if cell.scores is not None:
            metric, last = cell.scores.metric, cell.scores.cost.steps
            dev = {record.step: record.metrics.get(metric) for record in cell.history}
            lost = losses(cell.history)
            for step in sorted({*dev, last}):
                row = CurveRow(**shared, step=step, of_steps=last, dev=dev.get(step), dev_loss=lost.get(step))
                test, seconds = cell.score(results.main_split), cell.scores.cost.seconds_total
                yield replace(row, test=test, seconds=seconds) if step == last else row
        elif cell.failure is not None and lengths:
            yield CurveRow(**shared, step=min(cell.failure.step or 0, max(lengths) - 1), of_steps=max(lengths))


def _shared(cell: Cell, results: StudyResults) -> dict[str, Any]:
    study = results.study
    lr = _rate(cell, results)
    return {
        "task": study.task.name,
        "model": study.model.label,
        "arm": cell.label if lr is None or "lr" in dict(cell.setting) else f"{cell.label} lr={lr:g}",
        "method": cell.method,
        "adapter": cell.adapter,
        "lr": lr,
        "seed": cell.seed,
        "metric": study.task.metric,
        "better": "higher" if study.task.metric_higher_is_better else "lower",
    }


def _rate(cell: Cell, results: StudyResults) -> float | None:
    """The learning rate of a run: its arm's, the one that was searched for it, its adapter's own, or the study's."""
    study = results.study
    searched = study.search.chosen.get(cell.label, {}) if study.search else dict(cell.setting)
    adapter = read_adapter(cell.adapter)
    own = adapter.lr if adapter is not None else None
    rate = searched.get("lr", own if own is not None else study.settings.get("lr"))
    return None if rate is None else float(rate)


def write_curves(rows: Sequence[CurveRow], file: Path) -> None:
    """Write the rows as CSV. None is an empty field."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [each.name for each in fields(CurveRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_rows(file: Path) -> list[CurveRow]:
    """The rows of a CSV file that :func:`write_curves` wrote; the last columns from ``schedule`` on may be absent.

    Raises:
        DataError: if a column is absent or a line is damaged; the line is named.
    """
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            needed = [each.name for each in fields(CurveRow)][:-_OPTIONAL]
            absent = [name for name in needed if name not in (reader.fieldnames or ())]
            if absent:
                raise DataError(
                    f"{file} has no column {', '.join(absent)}. Expected what 'gradgate study export STUDY --curves "
                    f"FILE' writes."
                )
            return [_row(line, file, number) for number, line in enumerate(reader, 2)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"Cannot read {file}: {error}. {remedy(file)}") from None


def _row(line: dict[str, str | None], file: Path, number: int) -> CurveRow:
    optional = {each.name for each in fields(CurveRow) if each.default is not MISSING}
    given = {name: value or None for name, value in line.items() if value or name not in optional}
    try:
        row = _ROW.validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        found, reason = f"{'.'.join(map(str, first['loc']))} is {first['input']!r}", first["msg"]
    else:
        if row.better in ("higher", "lower") and 0 <= row.step <= row.of_steps:
            return row
        found, reason = f"step {row.step} of {row.of_steps}, {row.better} is better", "no such row can be"
    raise DataError(f"{file}, line {number}: {found}: {reason}. Expected a row as 'gradgate study export' writes it.")
