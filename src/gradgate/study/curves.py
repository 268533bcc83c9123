"""Learning curves of finished studies, as one CSV file with a row for each run and evaluation on dev.

Several studies make one grid, as where each rate is a study of its own: an arm is a method on an adapter at a rate.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import DataError
from gradgate.files import remedy
from gradgate.study.budget import FullGrid, Progress, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
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


@dataclass(frozen=True)
class Curves:
    """A finished grid with the learning curves of its runs.

    Attributes:
        runs: each run of the grid, to its end.
        notes: what was left out, and which scores stand for others.
    """

    grid: FullGrid
    runs: dict[RunKey, Progress]
    notes: tuple[str, ...] = ()


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
        "model": study.model.name,
        "arm": cell.label if lr is None else f"{cell.label} lr={lr:g}",
        "method": cell.method,
        "adapter": cell.adapter,
        "lr": lr,
        "seed": cell.seed,
        "metric": study.task.metric,
        "better": "higher" if study.task.metric_higher_is_better else "lower",
    }


def _rate(cell: Cell, results: StudyResults) -> float | None:
    """The learning rate of a run: the one that was searched for its arm, its adapter's own, or the study's."""
    study = results.study
    searched = study.search.chosen.get(cell.label, {}) if study.search else {}
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


def as_curves(rows: Sequence[CurveRow], schedule: str = CUT) -> Curves:
    """The grid that the rows are of. Seeds that an arm has not run on every task are left out, and named.

    Raises:
        DataError: if no seed is left, a run is there twice, or runs of one task differ in length or metric.
    """
    chosen = [row for row in rows if row.schedule == schedule]
    several = len({row.model for row in chosen}) > 1
    found: dict[RunKey, list[CurveRow]] = {}
    for row in chosen:
        task = f"{row.task} with {row.model}" if several else row.task
        found.setdefault(RunKey(row.arm, task, row.seed), []).append(row)
    arms = tuple(dict.fromkeys(key.arm for key in found))
    tasks = tuple(dict.fromkeys(key.task for key in found))
    seeds = tuple(dict.fromkeys(key.seed for key in found))
    whole = tuple(seed for seed in seeds if all(RunKey(arm, task, seed) in found for arm in arms for task in tasks))
    if not whole:
        raise DataError(
            f"No seed was run with each of the {len(arms)} arms on each of the {len(tasks)} tasks: there is no grid to "
            f"replay. Finish the study first, or give all studies that belong to it."
        )
    steps = {task: _one(task, "of_steps", found) for task in tasks}
    higher = {_one(task, "better", found) for task in tasks}
    if len(higher) > 1:
        raise DataError("Higher scores are better on some tasks and lower ones on others. Replay them one by one.")
    methods = {row.arm: row.method if row.adapter is None else f"{row.adapter} + {row.method}" for row in chosen}
    grid = FullGrid(arms=arms, seeds=whole, steps=steps, methods=methods, higher_is_better=higher == {"higher"})
    runs = {key: _progress(key, found[key]) for key in found if key.seed in whole}
    left_out = [f"seed {seed} is left out, which not every arm has run" for seed in seeds if seed not in whole]
    return Curves(grid, runs, (*left_out, *_stand_ins(grid, runs)))


def _one(task: str, name: str, found: dict[RunKey, list[CurveRow]]) -> Any:
    values = {getattr(row, name) for key, rows in found.items() if key.task == task for row in rows}
    if len(values) > 1:
        raise DataError(
            f"Runs of {task} differ in {name}: {', '.join(map(str, sorted(values)))}. A grid has one for all its runs; "
            f"give studies that were made alike."
        )
    return values.pop()


def _progress(key: RunKey, rows: Sequence[CurveRow]) -> Progress:
    steps = [row.step for row in rows]
    if len(set(steps)) < len(steps):
        raise DataError(
            f"{key.arm} on {key.task} with seed {key.seed} has two rows at one step. Give each study once, and studies "
            f"of different settings one by one."
        )
    last = max(rows, key=lambda row: row.step)
    dev = {row.step: row.dev for row in rows if row.dev is not None}
    lost = {row.step: row.dev_loss for row in rows if row.dev_loss is not None}
    return Progress(last.step, dev, last.seconds, failed=last.step < last.of_steps or not dev, losses=lost)


def _stand_ins(grid: FullGrid, runs: dict[RunKey, Progress]) -> Iterator[str]:
    for task in grid.steps:
        for until in sorted({grid.until(task, eighths) for eighths in EIGHTHS}):
            lacking = sum(until not in run.dev for key, run in runs.items() if key.task == task and not run.has_failed)
            if lacking:
                yield f"{lacking} runs of {task} have no score at step {until}: the best one before it stands"
