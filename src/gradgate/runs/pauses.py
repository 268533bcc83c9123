"""``pauses.json``: where a run was paused, and what it scored on dev there; and how far a run is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord, read_history
from gradgate.runs.records import Scores, read_record, write_record


def _check_scored(dev: tuple[DevRecord, ...]) -> tuple[DevRecord, ...]:
    if not dev:
        raise ValueError("expected the scores of at least one pause")
    return dev


@dataclass(frozen=True, kw_only=True)
class PauseRecord:
    """``pauses.json``; it stays when the run goes on.

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


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How far a run is, and what it has scored on dev so far.

    Attributes:
        metric: that selects the best weights.
        step: optimizer steps up to the latest pause, or all of a finished run.
        of_steps: optimizer steps of the whole run.
        seconds: of training up to ``step``.
        dev: the scores on dev up to ``step``, at evaluations and pauses, in the order of steps.
    """

    metric: str
    step: int
    of_steps: int
    seconds: float
    dev: tuple[DevRecord, ...]

    @property
    def finished(self) -> bool:
        """Whether the run has ended and its test splits are scored."""
        return self.step >= self.of_steps

    @property
    def scores(self) -> dict[int, float]:
        """Step to the metric on dev, in the order of steps."""
        return {record.step: record.metrics[self.metric] for record in self.dev}

    @property
    def score(self) -> float:
        """The latest score on dev."""
        return self.dev[-1].metrics[self.metric]

    def __str__(self) -> str:
        return f"step {self.step} of {self.of_steps}"


def read_pauses(folder: RunFolder) -> PauseRecord | None:
    """Where a run was paused; None if it never was.

    Raises:
        RunError: if the file is damaged.
    """
    return read_record(folder.pauses_file, PauseRecord) if folder.pauses_file.is_file() else None


def note_pause(folder: RunFolder, metric: str, of_steps: int, seconds: float, scores: DevRecord) -> None:
    """Write down that a run has been paused at the step of these scores; RunError if it cannot be written.

    Args:
        folder: of the run.
        metric: that selects.
        of_steps: optimizer steps of the whole run.
        seconds: of training so far.
        scores: on dev.
    """
    held = read_pauses(folder)
    dev = merged_by_step(held.dev if held is not None else (), [scores])
    write_record(folder.pauses_file, PauseRecord(metric=metric, of_steps=of_steps, seconds=seconds, dev=dev))


def merged_by_step(first: Iterable[DevRecord], others: Iterable[DevRecord]) -> tuple[DevRecord, ...]:
    """Scores in the order of steps; of two at one step, that of ``others``."""
    found = {record.step: record for record in (*first, *others)}
    return tuple(found[step] for step in sorted(found))


def read_reached(folder: RunFolder) -> Reached | None:
    """How far the run in a folder is; None if it has neither finished nor been paused.

    Raises:
        RunError: if a file of the run is damaged.
    """
    pauses = read_pauses(folder)
    if folder.finished:
        scores = read_record(folder.scores_file, Scores)
        cost = scores.cost
        metric, step, of_steps, seconds = scores.metric, cost.steps, cost.steps, cost.seconds_total
    elif pauses is not None:
        metric, step, of_steps, seconds = pauses.metric, pauses.step, pauses.of_steps, pauses.seconds
    else:
        return None
    # A run that begins anew, for want of its checkpoint, has less history than when it was paused.
    evaluated = read_history(folder.history_file).dev if folder.history_file.is_file() else ()
    known = merged_by_step(pauses.dev if pauses is not None else (), evaluated)
    dev = tuple(record for record in known if record.step <= step)
    return Reached(metric=metric, step=step, of_steps=of_steps, seconds=seconds, dev=dev)
