"""What the folders of a study hold, as a budget sees it: how far each run is, and its scores on dev.

A budget keeps no state beside these folders, so that one that was killed goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from math import isfinite, nan

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord
from gradgate.runs.pauses import merged_by_step, read_reached
from gradgate.study.budget import Observed, Progress, RunKey
from gradgate.study.results import RunResult, StudyResults
from gradgate.study.study_file import StudyRecord


def observe(parts: Sequence[StudyResults], forgiven: AbstractSet[RunKey] = frozenset()) -> Observed:
    """Every run that was begun: finished, paused or failed.

    A run that is being trained counts with what it had done when it was last paused, and not at all before. Arms are
    labels as in :attr:`gradgate.study.arms.Arm.label`, tasks are named by :func:`task_name`.

    Args:
        parts: the results of each task (and model) of the study, or of the study itself.
        forgiven: runs that have failed and are to be tried again: they count with what they had done when they were
            last paused.
    """
    found = {
        (key := RunKey(cell.label, task_name(results.study), cell.seed)): progress_of(
            _before_failure(cell) if key in forgiven else cell
        )
        for results in parts
        for cell in results.cells
    }
    return {key: progress for key, progress in found.items() if progress is not None}


def task_name(study: StudyRecord) -> str:
    """What a budget calls a part of a study: its name among several, or its task."""
    return study.part or study.task.name


def _before_failure(cell: RunResult) -> RunResult:
    reached = None
    if cell.folder is not None:
        with suppress(RunError):
            reached = read_reached(RunFolder(cell.folder))
    return replace(cell, failure=None, scores=None, reached=reached)


def progress_of(cell: RunResult) -> Progress | None:
    """How far a run is; None where it was not begun.

    Scores and losses at pauses count beside those of evaluations, so that a run that has finished since still has those
    on which it was let go on.
    """
    if cell.failure is not None:
        return Progress(cell.failure.step or 0, failed=True)
    if cell.reached is not None and cell.scores is None:
        reached = cell.reached
        return Progress(reached.step, reached.scores, reached.seconds, losses=losses(reached.dev))
    if cell.scores is None:
        return None
    metric, cost = cell.scores.metric, cell.scores.cost
    known = merged_by_step(cell.reached.dev if cell.reached is not None else (), cell.history)
    dev = {record.step: record.metrics[metric] for record in known if metric in record.metrics}
    return Progress(cost.steps, dev, cost.seconds_total, losses=losses(known))


def losses(dev: Sequence[DevRecord]) -> dict[int, float]:
    """Step to the loss on dev, where it is known."""
    return {record.step: record.metrics["loss"] for record in dev if isfinite(record.metrics.get("loss", nan))}
