"""Read a run of a study from its trial in the queue: its state, its worker and how far it is."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState
from typing_extensions import TypedDict  # the one that pydantic can check before Python 3.12

from gradgate.runs.records import record_adapter
from gradgate.runs.state import RunState

_NOTED = (
    "fingerprint", "config", "followed", "label", "folder", "lost", "pruned_against", "until", "paused", "worker",
    "progress", "error",
)  # fmt: skip
_STATES = {
    TrialState.WAITING: RunState.WAITING,
    TrialState.RUNNING: RunState.RUNNING,
    TrialState.COMPLETE: RunState.FINISHED,
    TrialState.PRUNED: RunState.PRUNED,
}


class WorkerName(TypedDict):
    """The worker that claimed a run."""

    host: str
    pid: int
    slot: int


class Paused(TypedDict):
    """The step at which a run is paused; both are 0 for one that waited and was paused before its first step."""

    step: int
    total: int


class StepsDone(TypedDict):
    """The progress of a running run."""

    step: int
    total: int
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class QueuedRun:
    """One run of a study with its state.

    Attributes:
        label: for people.
        folder: relative to the study's.
        state: whether it waits, runs, or how it ended.
        fingerprint, config: of the run's configuration; empty for a run of a study without a store.
        followed: the method with the digest of the plan file that it follows, which the fingerprint has in its place.
        lost: number of workers that have died while they ran it, since it was queued or retried.
        trial: id of the latest trial; 0 for a run of a study without a store.
        pruned_against: the runs whose dev scores may end this one early; None for one that trains to its end.
        until: the optimizer step to pause at; None for one that trains to its end.
        paused: where it is paused: ``step`` and ``total``.
        worker: who claimed it: ``host``, ``pid`` and ``slot``.
        progress: of the training, if known: ``step``, ``total``, ``loss``.
        error: why it failed.
        started, ended: when it was claimed and settled.
    """

    label: str
    folder: Path
    state: RunState
    fingerprint: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    followed: str | None = None
    lost: int = 0
    trial: int = 0
    pruned_against: str | None = None
    until: int | None = None
    paused: Paused | None = None
    worker: WorkerName | None = None
    progress: StepsDone | None = None
    error: str | None = None
    started: datetime | None = None
    ended: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run waits or runs."""
        return self.state in (RunState.WAITING, RunState.RUNNING)

    @property
    def place(self) -> Paused | StepsDone | None:
        """The progress of a running or paused run; None for others, or if that is unknown."""
        return {RunState.RUNNING: self.progress, RunState.PAUSED: self.paused}.get(self.state)

    @property
    def claimed_by(self) -> str | None:
        """The worker as ``host:pid``; None for a run that waits."""
        if self.worker is None or self.state is RunState.WAITING:
            return None
        return f"{self.worker['host']}:{self.worker['pid']}"

    @property
    def seconds(self) -> float | None:
        """Seconds since it was claimed; for a run that has ended, how long it took."""
        if self.started is None or self.claimed_by is None:
            return None
        return ((self.ended or datetime.now()) - self.started).total_seconds()


def this_worker(slot: int = 0) -> WorkerName:
    """Return the name of this process as a worker."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "slot": slot}


def read_trial(trial: FrozenTrial) -> QueuedRun:
    known = {name: value for name, value in trial.user_attrs.items() if name in _NOTED}
    is_paused = trial.state == TrialState.PRUNED and "paused" in known  # optuna has no state of that name
    return record_adapter(QueuedRun).validate_python(
        {
            **known,
            "trial": trial._trial_id,
            "state": RunState.PAUSED if is_paused else _STATES.get(trial.state, RunState.FAILED),
            "started": trial.datetime_start,
            "ended": trial.datetime_complete,
        }
    )


def is_lost(run: QueuedRun) -> bool:
    """Return whether its worker died: a run that fails otherwise has an error."""
    return run.state is RunState.FAILED and run.error is None


def is_gone(worker: WorkerName | None) -> bool:
    """Return whether a worker on this machine has ended; those on others only fall silent."""
    if worker is None or worker["host"] != socket.gethostname() or sys.platform == "win32":
        return False
    try:
        os.kill(worker["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it runs, as another user's
        pass
    return False
