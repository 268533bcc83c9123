"""Read and write ``pauses.json``: where a run was paused and what it scored on dev there. Read how far a run is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Annotated

from pydantic import AfterValidator

from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord, read_history, read_history_so_far
from gradgate.runs.records import read_record, write_record
from gradgate.runs.scores import Scores
from gradgate.runs.state import Progress, RunState


def _check_scored(dev: tuple[DevRecord, ...]) -> tuple[DevRecord, ...]:
    if not dev:
        raise ValueError("expected the scores of at least one pause")
    return dev


@dataclass(frozen=True, kw_only=True)
class PauseRecord:
    """The content of ``pauses.json``, which stays when the run resumes.

    Attributes:
        metric: that selects the best weights.
        of_steps: optimizer steps of the whole run.
        seconds: of training up to the latest pause.
        dev: the scores at each pause, in the order of steps. Those that ``history.jsonl`` lacks selected nothing.
    """

    metric: str
    of_steps: int
    seconds: float
    dev: Annotated[tuple[DevRecord, ...], AfterValidator(_check_scored)]

    @property
    def step(self) -> int:
        """The step of the latest pause."""
        return self.dev[-1].step


def read_pauses(folder: RunFolder) -> PauseRecord | None:
    """Read where a run was paused; return None if it never was.

    Raises:
        RunError: if the file is damaged.
    """
    return read_record(folder.pauses_file, PauseRecord) if folder.pauses_file.is_file() else None


def note_pause(folder: RunFolder, metric: str, of_steps: int, seconds: float, scores: DevRecord) -> None:
    """Record that a run has been paused at the step of these scores; raise RunError if it cannot be written.

    Args:
        folder: of the run.
        metric: that selects.
        of_steps: optimizer steps of the whole run.
        seconds: of training so far.
        scores: on dev.
    """
    existing = read_pauses(folder)
    dev = merged_by_step(existing.dev if existing is not None else (), [scores])
    write_record(folder.pauses_file, PauseRecord(metric=metric, of_steps=of_steps, seconds=seconds, dev=dev))


def merged_by_step(first: Iterable[DevRecord], others: Iterable[DevRecord]) -> tuple[DevRecord, ...]:
    """Return scores in the order of steps; of two at one step, that of ``others``."""
    found = {record.step: record for record in (*first, *others)}
    return tuple(found[step] for step in sorted(found))


def read_progress(folder: RunFolder) -> Progress | None:
    """Read how far the run in a folder is.

    Returns:
        None if the run has neither finished nor been paused.

    Raises:
        RunError: if a file of the run is damaged.
    """
    pauses = read_pauses(folder)
    scores = read_record(folder.scores_file, Scores) if folder.finished else None
    if scores is None and pauses is None:
        return None
    read = read_history_so_far if scores is None else read_history
    evaluated = read(folder.history_file).dev if folder.history_file.is_file() else ()
    return progress_of(pauses, scores, evaluated)


def progress_of(
    pauses: PauseRecord | None, scores: Scores | None, evaluated: Sequence[DevRecord] = ()
) -> Progress | None:
    """Join what the files of a run say about its progress.

    Scores and losses at pauses count with those of evaluations, so that a run that has finished still has those
    that decided whether it was resumed.

    Args:
        pauses: where the run was paused; None if it never was.
        scores: of a finished run.
        evaluated: the evaluations on dev in ``history.jsonl``. A run that starts over, for lack of its checkpoint, has
            fewer than when it was paused.
    """
    known = merged_by_step(pauses.dev if pauses is not None else (), evaluated)
    if scores is not None:
        state, metric, seconds = RunState.FINISHED, scores.metric, scores.cost.seconds_total
        step = total = scores.cost.steps or 0
    elif pauses is not None:
        state, metric, seconds = RunState.PAUSED, pauses.metric, pauses.seconds
        step, total = pauses.step, pauses.of_steps
        known = tuple(record for record in known if record.step <= step)
    else:
        return None
    dev = {record.step: record.metrics[metric] for record in known if metric in record.metrics}
    return Progress(step, dev, seconds, state, losses_on_dev(known), total, metric)


def losses_on_dev(dev: Iterable[DevRecord]) -> dict[int, float]:
    """Return step to loss on dev, for evaluations with a finite one."""
    return {record.step: record.metrics["loss"] for record in dev if isfinite(record.metrics.get("loss", nan))}
