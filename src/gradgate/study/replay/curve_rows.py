"""Read and write the learning curves of finished studies: a CSV file with one row per evaluation on dev."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gradgate.csv_rows import CsvRows
from gradgate.runs.pauses import losses_on_dev
from gradgate.settings.arms.recorded import ArmName
from gradgate.study.conditions import condition_folders
from gradgate.study.results import StudyResults, read_study
from gradgate.study.run_result import RunResult

WHOLE = "cut"
"""The schedule of whole runs, of which a budget sees the beginning; a file may have rows of others."""


@dataclass(frozen=True, kw_only=True)
class CurveRow:
    """One evaluation of one run.

    Attributes:
        arm: method, adapter and rate.
        step: optimizer steps, of ``of_steps``.
        dev: the task's metric on dev; None in the last row of a run that failed or was not evaluated there.
        test: on the main test split, by the checkpoint with the best dev score; in the last row alone.
        seconds: of the whole training; in the last row alone.
        schedule: :data:`WHOLE`, or the name of another.
        better: ``higher`` or ``lower`` scores.
        dev_loss: the loss on dev; None if unknown.
        train_size: training examples; None for all, or if unknown.
    """

    task: str
    model: str
    arm: ArmName
    method: str
    adapter: str | None
    lr: float | None
    seed: int
    step: int
    of_steps: int
    dev: float | None = None
    test: float | None = None
    seconds: float | None = None
    schedule: str = WHOLE
    metric: str = ""
    better: Literal["higher", "lower"] = "higher"
    dev_loss: float | None = None
    train_size: int | None = None


def _refuse_impossible(row: CurveRow) -> None:
    if not 0 <= row.step <= row.of_steps:
        raise ValueError(f"step {row.step} of {row.of_steps}: such a row is impossible")


_FILE = CsvRows(
    CurveRow,
    "gradgate study export STUDY --curves FILE",
    may_lack=("schedule", "metric", "better", "dev_loss", "train_size"),
    check=_refuse_impossible,
)


def study_rows(folder: Path) -> list[CurveRow]:
    """Return the curves of all finished and failed runs of a study, in its order.

    Raises:
        RunError: if the folder holds no study.
    """
    return [row for part in condition_folders(folder) for row in _rows_of(read_study(part))]


def _rows_of(results: StudyResults) -> Iterator[CurveRow]:
    lengths = [cell.scores.cost.steps or 0 for cell in results.cells if cell.scores]
    for cell in results.cells:
        shared = _shared(cell, results)
        if cell.scores is not None:
            metric, last = cell.scores.metric, cell.scores.cost.steps or 0
            dev = {record.step: record.metrics.get(metric) for record in cell.history}
            lost = losses_on_dev(cell.history)
            for step in sorted({*dev, last}):
                row = CurveRow(**shared, step=step, of_steps=last, dev=dev.get(step), dev_loss=lost.get(step))
                test, seconds = cell.score(results.main_split), cell.scores.cost.seconds_total
                yield replace(row, test=test, seconds=seconds) if step == last else row
        elif cell.failure is not None and lengths:
            yield CurveRow(**shared, step=min(cell.failure.step or 0, max(lengths) - 1), of_steps=max(lengths))


def _shared(cell: RunResult, results: StudyResults) -> dict[str, Any]:
    study, arm = results.study, cell.arm
    lr = _rate(cell, results)
    return {
        "task": study.task.name,
        "model": study.model.label,
        "arm": (arm if lr is None or arm.lr is not None else arm.with_settings({"lr": lr})).name,
        "method": str(arm.method),
        "adapter": None if arm.adapter is None else str(arm.adapter),
        "lr": lr,
        "seed": cell.seed,
        "metric": study.task.metric,
        "better": "higher" if study.task.metric_higher_is_better else "lower",
        "train_size": study.train_size,
    }


def _rate(cell: RunResult, results: StudyResults) -> float | None:
    """Return the learning rate of a run: its arm's, the one that a search chose, or the study's."""
    study, own = results.study, cell.arm.lr
    searched = study.search.chosen.get(cell.arm.name, {}) if study.search else {}
    rate = searched.get("lr", study.settings.get("lr") if own is None else own)
    return None if rate is None else float(rate)


def write_curves(rows: Sequence[CurveRow], file: Path) -> None:
    """Write the rows as CSV; RunError if the file cannot be written."""
    _FILE.write(file, rows)


def read_rows(file: Path) -> list[CurveRow]:
    """Read a CSV file that :func:`write_curves` wrote; the columns from ``schedule`` on may be absent.

    Raises:
        DataError: if a column is absent or a line is damaged; the line is named.
    """
    return _FILE.read(file)
