"""The runs of a study as trials of its store: who claims which, and what became of them.

Each try of a run is a trial; of the trials with one fingerprint the latest counts. What a run computed is in its
folder, so a finished folder settles whatever the store says.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from optuna import create_study, create_trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import MedianPruner
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import TypedDict  # the one that pydantic can check before Python 3.12

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import read_pauses
from gradgate.runs.records import Failure, Scores, read_record, record_adapter, write_record
from gradgate.settings.identity import fingerprint_of
from gradgate.study.grid import GridRun
from gradgate.study.study_file import damage_of
from gradgate.study.workers.store import DamagedStoreError, Store

State = Literal["waiting", "running", "paused", "finished", "failed", "pruned"]
LOSSES = 5  # a run that outlives more workers than this takes them down with it
_NOTED = (
    "fingerprint", "config", "label", "folder", "lost", "pruned_against", "until", "paused", "worker", "progress",
    "error",
)  # fmt: skip
_STATES: dict[TrialState, State] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
}


class WorkerName(TypedDict):
    """Who claimed a run."""

    host: str
    pid: int
    slot: int


class Paused(TypedDict):
    """Where a run is paused; both are 0 for one that was held back before it had a step."""

    step: int
    total: int


class StepsDone(TypedDict):
    """How far a run is."""

    step: int
    total: int
    loss: float | None


@dataclass(frozen=True)
class QueuedRun:
    """One run of a study as its store has it.

    Attributes:
        trial: id of the latest trial.
        fingerprint, config: of the run's configuration.
        label: for people.
        folder: relative to the study's.
        state: what is to do or was done.
        pruned_against: which runs its dev scores are held against, to end it early; None for one that runs to its end.
        until: the optimizer step at which it is paused; None for one that is trained to its end.
        paused: where it is paused: ``step`` and ``total``.
        lost: how many workers have died while they ran it, since it was queued or retried.
        worker: who claimed it: ``host``, ``pid`` and ``slot``.
        progress: of the training, where known: ``step``, ``total``, ``loss``.
        error: why it failed.
        started, ended: when it was claimed and settled.
    """

    trial: int
    fingerprint: str
    config: dict[str, Any]
    label: str
    folder: Path
    state: State
    lost: int
    pruned_against: str | None = None
    until: int | None = None
    paused: Paused | None = None
    worker: WorkerName | None = None
    progress: StepsDone | None = None
    error: str | None = None
    started: datetime | None = None
    ended: datetime | None = None


def this_worker(slot: int = 0) -> WorkerName:
    """How this process names itself."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "slot": slot}


class Queue:
    """The runs of one study, in the order in which they were added."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def runs(self) -> list[QueuedRun]:
        """Every run once."""
        with self.store.explained_errors():
            trials = self.store.study.get_trials(deepcopy=False)
            latest = {trial.user_attrs["fingerprint"]: trial for trial in trials if "fingerprint" in trial.user_attrs}
            return [_read(trial) for trial in latest.values()]

    def folder_of(self, run: QueuedRun) -> RunFolder:
        """The run's folder."""
        return RunFolder(self.store.folder / run.folder)

    def _check(self, run: QueuedRun) -> None:
        """DamagedStoreError if a run is not what was queued: another configuration, or a folder elsewhere."""
        if fingerprint_of(run.config) != run.fingerprint:
            wrong = f"the configuration of {run.label!r} is not the one that was queued"
        elif run.folder.is_absolute() or ".." in run.folder.parts:
            wrong = f"the folder of {run.label!r}, {str(run.folder)!r}, is not in the study's"
        else:
            return
        raise DamagedStoreError(
            f"{self.store.place} is damaged ({wrong}). 'gradgate compare' builds it anew; finished runs stay."
        )

    def failure_of(self, run: QueuedRun) -> str | None:
        """Why a run has failed, by the store or by a finished folder with damaged scores; None if it has not."""
        if run.state == "failed":
            return run.error or "its worker died"
        return damage_of(self.folder_of(run)) if run.state == "finished" else None

    def add(self, runs: Sequence[GridRun]) -> None:
        """Queue what has not finished and neither waits nor runs; take over what has finished without the store.

        A run that is paused waits again if it is to be trained to a later step; one that waits takes the latest step.
        """
        with self.store.locked(), self.store.explained_errors():
            held = {run.fingerprint: run for run in self.runs()}
            for queued in held.values():
                self._check(queued)
            for run in runs:
                self._add(run, held.get(run.config.fingerprint()))

    def _add(self, run: GridRun, held: QueuedRun | None) -> None:
        attributes = {
            "fingerprint": run.config.fingerprint(),
            "config": run.config.record(),
            "label": run.label,
            "folder": run.folder.path.relative_to(self.store.folder).as_posix(),
            "lost": 0,
            "pruned_against": run.pruned_against,
            "until": run.until,
        }
        if held is not None and held.state == "waiting":
            for name in ("config", "until"):
                self.store.storage.set_trial_user_attr(held.trial, name, attributes[name])
        elif run.folder.finished and damage_of(run.folder) is None:
            value, told = _outcome(run.folder)
            if held is None or held.state == "paused" or (held.state == "failed" and value is not None):
                self._create(TrialState.FAIL if value is None else TrialState.COMPLETE, {**attributes, **told}, value)
        elif held is not None and held.state in ("running", "pruned"):
            return
        elif run.until is not None and (there := _paused_in(run.folder)) and there["step"] >= run.until:
            if held is None or held.state != "paused":
                self._create(TrialState.PRUNED, {**attributes, "paused": there})
        else:
            self._create(TrialState.WAITING, attributes)

    def hold_back(self, wanted: Sequence[GridRun]) -> None:
        """Let no other run wait than these: the others rest where they are until they are added again."""
        keep = {run.config.fingerprint() for run in wanted}
        with self.store.locked():
            for run in self.runs():
                if run.state == "waiting" and run.fingerprint not in keep:
                    there = _paused_in(self.folder_of(run)) or Paused(step=0, total=0)
                    self._settle(run, TrialState.PRUNED, {"paused": there})

    def claim(self, worker: WorkerName) -> QueuedRun | None:
        """Make the first waiting run whose folder nobody trains in the worker's own; None if there is none."""
        storage = self.store.storage
        for run in self.runs():
            if run.state != "waiting":
                continue
            self._check(run)
            if self.folder_of(run).is_locked:
                continue
            with self.store.explained_errors():
                storage.record_heartbeat(run.trial)  # before it runs: a claim without one would never be stale
                with suppress(UpdateFinishedTrialError):
                    if storage.set_trial_state_values(run.trial, TrialState.RUNNING):
                        storage.set_trial_user_attr(run.trial, "worker", worker)
                        return run
        return None

    def beat(self, run: QueuedRun, progress: StepsDone | None) -> None:
        """Show that the worker lives, and how far the run is."""
        with self.store.explained_errors(), suppress(UpdateFinishedTrialError):
            self.store.storage.record_heartbeat(run.trial)
            if progress:
                self.store.storage.set_trial_user_attr(run.trial, "progress", progress)

    def finish(self, run: QueuedRun) -> None:
        """Take in the scores from the run's folder."""
        value, told = _outcome(self.folder_of(run))
        self._settle(run, TrialState.FAIL if value is None else TrialState.COMPLETE, told, value)

    def fail(self, run: QueuedRun, message: str) -> None:
        """Note why a run failed; it stays so until it is retried."""
        self._settle(run, TrialState.FAIL, {"error": message})

    def prune(self, run: QueuedRun) -> None:
        """Note that a run has ended early."""
        self._settle(run, TrialState.PRUNED, {})

    def pause(self, run: QueuedRun) -> None:
        """Note that a run has reached its step; it is paused there until it is added with a later one."""
        there = _paused_in(self.folder_of(run))
        if there is not None:
            self._settle(run, TrialState.PRUNED, {"paused": there})
            return
        file = self.folder_of(run).pauses_file
        self.fail(run, f"{file}, which says where the run is paused, is missing or damaged. Retry the run.")

    def is_below_median(self, run: QueuedRun, step: int, score: float) -> bool:
        """Note the dev score after a step. Whether all so far are below the median there, of at least two like it."""
        with self.store.explained_errors(), suppress(UpdateFinishedTrialError):
            self.store.storage.set_trial_intermediate_value(run.trial, step, score)
            trial = self.store.storage.get_trial(run.trial)
            others = self.store.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            like = [other for other in others if other.user_attrs.get("pruned_against") == run.pruned_against]
            alike = create_study(direction=self.store.study.direction)
            alike.add_trials(like)
            return bool(MedianPruner(n_startup_trials=2).prune(alike, trial))
        return False

    def give_back(self, run: QueuedRun) -> None:
        """Let another worker have it."""
        self._settle(run, TrialState.WAITING, {})

    def retry(self, wanted: Callable[[QueuedRun], bool] = lambda run: True) -> list[QueuedRun]:
        """Queue failed runs again. Returns them."""
        with self.store.locked(), self.store.explained_errors():
            failed = [run for run in self.runs() if self.failure_of(run) is not None and wanted(run)]
            for run in failed:
                self._again(run, lost=0)
        return failed

    def recover(self) -> None:
        """Queue the runs of dead workers again; one that lost too many of them has failed."""
        storage = self.store.storage
        with self.store.explained_errors():
            silent = storage._get_stale_trial_ids(self.store.id)  # fail_stale_trials warns at each call
            for run in self.runs():
                if run.state == "running" and (run.trial in silent or _is_gone(run.worker)):
                    with suppress(UpdateFinishedTrialError):
                        storage.set_trial_state_values(run.trial, TrialState.FAIL)
        if not any(map(_is_lost, self.runs())):
            return
        with self.store.locked(), self.store.explained_errors():
            for run in filter(_is_lost, self.runs()):
                self._again(run, run.lost + 1)

    def _again(self, run: QueuedRun, lost: int) -> None:
        attributes = {"fingerprint": run.fingerprint, "config": run.config, "label": run.label, "lost": lost}
        attributes |= {"folder": run.folder.as_posix(), "pruned_against": run.pruned_against, "until": run.until}
        if lost <= LOSSES:
            self._create(TrialState.WAITING, attributes)
            return
        host = run.worker["host"] if run.worker else "an unknown host"
        message = f"{lost} workers died while they ran it, the last one on {host}."
        with suppress(RunError):
            write_record(self.folder_of(run).error_file, Failure("WorkerDied", message))
        self._create(TrialState.FAIL, {**attributes, "error": message})

    def _create(self, state: TrialState, attributes: dict[str, Any], value: float | None = None) -> None:
        self.store.study.add_trial(create_trial(state=state, value=value, user_attrs=attributes))

    def _settle(self, run: QueuedRun, state: TrialState, told: dict[str, Any], value: float | None = None) -> None:
        storage = self.store.storage
        with self.store.explained_errors(), suppress(UpdateFinishedTrialError):  # another took this worker for dead
            for name, item in told.items():
                storage.set_trial_user_attr(run.trial, name, item)
            storage.set_trial_state_values(run.trial, state, None if value is None else [value])


def _read(trial: FrozenTrial) -> QueuedRun:
    known = {name: value for name, value in trial.user_attrs.items() if name in _NOTED}
    is_paused = trial.state == TrialState.PRUNED and "paused" in known  # optuna has no state of that name
    return record_adapter(QueuedRun).validate_python(
        {
            **known,
            "trial": trial._trial_id,
            "state": "paused" if is_paused else _STATES.get(trial.state, "failed"),
            "started": trial.datetime_start,
            "ended": trial.datetime_complete,
        }
    )


def _paused_in(folder: RunFolder) -> Paused | None:
    """Where the run in a folder is paused; None if it is not, or has failed since, or if nobody can tell."""
    if folder.error_file.is_file():
        return None
    try:
        pauses = read_pauses(folder)
    except RunError:
        return None
    return None if pauses is None else {"step": pauses.step, "total": pauses.of_steps}


def _outcome(folder: RunFolder) -> tuple[float | None, dict[str, Any]]:
    """The dev score of a finished run, None if it is no number; and what else to note."""
    try:
        scores = read_record(folder.scores_file, Scores)
    except RunError as error:
        return None, {"error": str(error)}
    value = scores.dev.get(scores.metric)
    if value is None or not isfinite(value):
        return None, {"error": f"scores.json: {scores.metric} on dev is {value}, expected a finite number."}
    return value, {"metric": scores.metric, "scores": {"dev": scores.dev, **scores.tests}}


def _is_lost(run: QueuedRun) -> bool:
    """Whether its worker died: who fails otherwise says why."""
    return run.state == "failed" and run.error is None


def _is_gone(worker: WorkerName | None) -> bool:
    """Whether a worker on this machine has ended; of others only their silence tells."""
    if worker is None or worker["host"] != socket.gethostname() or sys.platform == "win32":
        return False
    try:
        os.kill(worker["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
