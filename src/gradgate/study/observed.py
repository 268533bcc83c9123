"""What the folders of a study hold, as a budget sees it: how far each run is, and its scores on dev.

A budget keeps no state beside these folders, so that one that was killed goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

from gradgate.study.budget import Observed, Progress, RunKey
from gradgate.study.results import Cell, StudyResults
from gradgate.training.history import DevRecord


def observe(parts: Sequence[StudyResults]) -> Observed:
    """Every run that was begun: finished, paused or failed.

    A run that is being trained counts with what it had done when it was last paused, and not at all before. Arms are
    labels as in :attr:`gradgate.study.arms.Arm.label`, tasks the names in :func:`task_names`.

    Args:
        parts: the results of each task (and model) of the study, or of the study itself.
    """
    found = {
        RunKey(cell.label, task, cell.seed): progress_of(cell)
        for task, results in zip(task_names(parts), parts, strict=True)
        for cell in results.cells
    }
    return {key: progress for key, progress in found.items() if progress is not None}


def task_names(parts: Sequence[StudyResults]) -> tuple[str, ...]:
    """The name of each part for a budget: its task, with its model where there are several models."""
    several = len({results.study.model.name for results in parts}) > 1
    return tuple(
        f"{results.study.task.name} with {results.study.model.name}" if several else results.study.task.name
        for results in parts
    )


def progress_of(cell: Cell) -> Progress | None:
    """How far a run is; None where it was not begun.

    Scores at pauses count beside those of evaluations, so that a run that has finished since still has the scores on
    which it was let go on.
    """
    if cell.failure is not None:
        return Progress(cell.failure.step or 0, failed=True)
    if cell.reached is not None and cell.scores is None:
        reached = cell.reached
        return Progress(reached.step, reached.scores, reached.seconds, losses=losses(reached.dev))
    if cell.scores is None:
        return None
    metric, cost = cell.scores.metric, cell.scores.cost
    dev = {record.step: record.metrics[metric] for record in cell.history if metric in record.metrics}
    paused = cell.reached.scores if cell.reached is not None else {}
    return Progress(cost.steps, {**paused, **dev}, cost.seconds_total, losses=losses(cell.history))


def losses(dev: Sequence[DevRecord]) -> dict[int, float]:
    """Step to the loss on dev, where it is known."""
    return {record.step: record.metrics["loss"] for record in dev if isfinite(record.metrics.get("loss", nan))}
