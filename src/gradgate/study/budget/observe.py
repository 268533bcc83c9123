"""Read each run's progress and dev scores from its folder.

A budget keeps no state next to these folders, so that a study that was killed resumes as if it had not been.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import read_progress
from gradgate.runs.state import Progress, RunState
from gradgate.study.budget import Observed, RunKey
from gradgate.study.results import StudyResults
from gradgate.study.run_result import RunResult
from gradgate.study.study_file import StudyRecord


def observe(parts: Sequence[StudyResults], forgiven: AbstractSet[RunKey] = frozenset()) -> Observed:
    """Return the progress of every run that has begun: finished, paused or failed.

    A run that is being trained counts with its progress at its latest pause, and not at all before. Arms are names as
    in :attr:`gradgate.settings.arms.arm.Arm.name`, tasks are named by :func:`task_name`.

    Args:
        parts: the results of each task (and model) of the study, or of the study itself.
        forgiven: failed runs that are to be tried again: they count with their progress at their latest pause.
    """
    progress = {
        (key := RunKey(run.arm.name, task_name(results.study), run.seed)): _progress(run, is_forgiven=key in forgiven)
        for results in parts
        for run in results.cells
    }
    return {key: each for key, each in progress.items() if each is not None}


def task_name(study: StudyRecord) -> str:
    """Return the name that a budget uses for a part of a study: the part's among several, or the task's."""
    return study.part or study.task.name


def _progress(run: RunResult, *, is_forgiven: bool) -> Progress | None:
    if run.failure is None:
        return run.progress
    if not is_forgiven:
        return Progress(run.failure.step or 0, state=RunState.FAILED)
    if run.folder is not None:
        with suppress(RunError):
            return read_progress(RunFolder(run.folder))
    return None
