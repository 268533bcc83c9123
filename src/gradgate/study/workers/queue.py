"""Queue the runs of a study as trials of its store: who claims which, and how each ended.

Each try of a run is a trial; of the trials with one folder the latest counts. The store has states and heartbeats
only: scores are in the run's folder, and a finished folder overrides what the store says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from optuna import create_study, create_trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import MedianPruner
from optuna.trial import FrozenTrial, TrialState

from gradgate.errors import RunError, StoreError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import read_pauses
from gradgate.runs.records import Failure, RunRecord, read_record, write_record
from gradgate.runs.scores import Scores
from gradgate.runs.state import RunState
from gradgate.settings.identity import fingerprint_of
from gradgate.study.grid import GridRun
from gradgate.study.study_file import damage_of
from gradgate.study.workers.queued_run import Paused, QueuedRun, StepsDone, WorkerName, is_gone, is_lost, read_trial
from gradgate.study.workers.store import Store
from gradgate.study.workers.store_errors import damaged_store

LOSSES = 5  # a run that outlives more workers than this takes them down with it


class Queue:
    """The runs of one study, in the order in which they were added."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def runs(self) -> list[QueuedRun]:
        """Return every run once."""
        with self.store.explained_errors():
            trials = self.store.study.get_trials(deepcopy=False)
            queued = (trial for trial in trials if "fingerprint" in trial.user_attrs)
            # By folder: the same data by another path make another fingerprint, and the same run.
            latest = {str(trial.user_attrs.get("folder", trial.user_attrs["fingerprint"])): trial for trial in queued}
            found = [read_trial(trial) for trial in latest.values()]
        for run in found:
            if run.folder.is_absolute() or ".." in run.folder.parts:
                raise damaged_store(
                    self.store.address, f"the folder of {run.label!r}, {str(run.folder)!r}, is not in the study's"
                )
        return found

    def folder_of(self, run: QueuedRun) -> RunFolder:
        """Return the run's folder."""
        return RunFolder(self.store.folder / run.folder)

    def _check(self, run: QueuedRun) -> None:
        """Raise StoreError if a run differs from what was queued: other settings, or a folder elsewhere."""
        self._check_folder(run)
        if fingerprint_of({**run.config, **({"method": run.followed} if run.followed else {})}) == run.fingerprint:
            return
        raise damaged_store(self.store.address, f"the configuration of {run.label!r} is not the one that was queued")

    def _check_folder(self, run: QueuedRun) -> None:
        """Refuse a run whose folder is not in the study's because of a link."""
        study, folder = self.store.folder.resolve(), self.folder_of(run).path.resolve()
        if not folder.is_relative_to(study):
            raise StoreError(
                f"{self.folder_of(run).path} is a link to {folder}, outside the study's folder, which is not "
                "allowed. Move the study as a whole, or link its whole folder."
            )

    def failure_of(self, run: QueuedRun) -> str | None:
        """Return why a run failed, by the store or by its folder if it had finished; None if it has not.

        A finished run fails if its scores are damaged, or if they were removed, as the errors of damaged files advise.
        """
        if run.state is RunState.FAILED:
            return run.error or "its worker died"
        if run.state is not RunState.FINISHED:
            return None
        folder = self.folder_of(run)
        return damage_of(folder) if folder.finished else f"{folder.scores_file} has been removed"

    def add(self, runs: Sequence[GridRun]) -> None:
        """Queue runs that have not finished and neither wait nor run; record those that finished without the store.

        A paused run waits again if it is to be trained to a later step; a waiting one takes the latest step.
        """
        with self.store.locked(), self.store.explained_errors():
            existing = {run.fingerprint: run for run in self.runs()}
            for queued in existing.values():
                self._check(queued)
            for run in runs:
                self._add(run, existing.get(run.config.fingerprint()))

    def _add(self, run: GridRun, existing: QueuedRun | None) -> None:
        if run.config.followed is not None and run.folder.run_file.is_file():
            read_record(run.folder.run_file, RunRecord).check_plan(run.config.followed, run.folder.path)
        attributes = {
            "fingerprint": run.config.fingerprint(),
            "config": run.config.record(),
            "followed": run.config.followed,
            "label": run.label,
            "folder": run.folder.path.relative_to(self.store.folder).as_posix(),
            "lost": 0,
            "pruned_against": run.pruned_against,
            "until": run.until,
        }
        state = existing.state if existing is not None else None
        if existing is not None and state is RunState.WAITING:
            for name in ("config", "followed", "until"):
                self.store.storage.set_trial_user_attr(existing.trial, name, attributes[name])
        elif run.folder.finished and damage_of(run.folder) is None:
            fault = _fault(run.folder)
            if state in (None, RunState.PAUSED) or (state is RunState.FAILED and fault is None):
                ended, error = _ended(fault)
                self._create(ended, attributes | error)
        elif state in (RunState.RUNNING, RunState.PRUNED):
            return
        elif run.until is not None and (there := _paused_in(run.folder)) and there["step"] >= run.until:
            if state is not RunState.PAUSED:
                self._create(TrialState.PRUNED, {**attributes, "paused": there})
        else:
            self._create(TrialState.WAITING, attributes)

    def hold_back(self, wanted: Sequence[GridRun]) -> None:
        """Let only these runs wait; pause the others where they are until they are added again."""
        waiting = {run.config.fingerprint() for run in wanted}
        with self.store.locked():
            for run in self.runs():
                if run.state is RunState.WAITING and run.fingerprint not in waiting:
                    there = _paused_in(self.folder_of(run)) or Paused(step=0, total=0)
                    self._settle(run, TrialState.PRUNED, {"paused": there})

    def withdraw(self, folders: Sequence[Path]) -> bool:
        """Let no run of these folders wait. Return False, and change nothing, if one of them is being trained."""
        with self.store.locked():
            own = [run for run in self.runs() if self.folder_of(run).path in folders]
            if any(run.state is RunState.RUNNING for run in own):
                return False
            for run in own:
                if run.state is RunState.WAITING:
                    self._settle(run, TrialState.PRUNED, {"paused": Paused(step=0, total=0)})
        return True

    def claim(self, worker: WorkerName) -> QueuedRun | None:
        """Claim the first waiting run whose folder no process trains in; return None if there is none."""
        storage = self.store.storage
        for run in self.runs():
            if run.state is not RunState.WAITING:
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
        """Record that the worker lives, and how far the run is."""
        with self.store.explained_errors(), suppress(UpdateFinishedTrialError):
            self.store.storage.record_heartbeat(run.trial)
            if progress:
                self.store.storage.set_trial_user_attr(run.trial, "progress", progress)

    def finish(self, run: QueuedRun) -> None:
        """Record that a run has finished, or failed if its scores cannot be used."""
        self._settle(run, *_ended(_fault(self.folder_of(run))))

    def fail(self, run: QueuedRun, message: str) -> None:
        """Record why a run failed; it stays so until it is retried."""
        self._settle(run, TrialState.FAIL, {"error": message})

    def prune(self, run: QueuedRun) -> None:
        """Record that a run has ended early."""
        self._settle(run, TrialState.PRUNED, {})

    def pause(self, run: QueuedRun) -> None:
        """Record that a run has reached its step; it stays paused there until it is added with a later one."""
        there = _paused_in(self.folder_of(run))
        if there is not None:
            self._settle(run, TrialState.PRUNED, {"paused": there})
            return
        file = self.folder_of(run).pauses_file
        self.fail(run, f"{file}, which says where the run is paused, is missing or damaged. Retry the run.")

    def is_below_median(self, run: QueuedRun, done: StepsDone, score: float) -> bool:
        """Record a dev score. Return True if the run is below the median of its peers (two or more) after half of it.

        Earlier scores end no run: at its first evaluation, a high rate may still predict one class for all rows.
        """
        with self.store.explained_errors(), suppress(UpdateFinishedTrialError):
            self.store.storage.set_trial_intermediate_value(run.trial, done["step"], score)
            trial = self.store.storage.get_trial(run.trial)
            others = self.store.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            peers = create_study(direction=self.store.study.direction)
            peers.add_trials(
                create_trial(state=other.state, value=0.0, intermediate_values=other.intermediate_values)
                for other in others  # the pruner compares intermediate values alone, and optuna wants a final one
                if other.user_attrs.get("pruned_against") == run.pruned_against
            )
            half = ceil(done["total"] / 2)
            return bool(MedianPruner(n_startup_trials=2, n_warmup_steps=half).prune(peers, trial))
        return False

    def give_back(self, run: QueuedRun) -> None:
        """Return the run to the queue."""
        self._settle(run, TrialState.WAITING, {})

    def retry(self, wanted: Callable[[QueuedRun], bool] = lambda run: True) -> list[QueuedRun]:
        """Queue failed runs again, and return them."""
        with self.store.locked(), self.store.explained_errors():
            failed = [run for run in self.runs() if self.failure_of(run) is not None and wanted(run)]
            for run in failed:
                self._again(run, lost=0)
        return failed

    def recover(self) -> None:
        """Queue the runs of dead workers again; a run that lost too many workers fails."""
        storage = self.store.storage
        with self.store.explained_errors():
            silent = storage._get_stale_trial_ids(self.store.id)  # fail_stale_trials warns at each call
            for run in self.runs():
                if run.state is RunState.RUNNING and (run.trial in silent or is_gone(run.worker)):
                    with suppress(UpdateFinishedTrialError):
                        storage.set_trial_state_values(run.trial, TrialState.FAIL)
        if not any(map(is_lost, self.runs())):
            return
        with self.store.locked(), self.store.explained_errors():
            for run in filter(is_lost, self.runs()):
                self._again(run, run.lost + 1)

    def _again(self, run: QueuedRun, lost: int) -> None:
        attributes = {"fingerprint": run.fingerprint, "config": run.config, "followed": run.followed, "lost": lost}
        attributes |= {"label": run.label, "folder": run.folder.as_posix()}
        attributes |= {"pruned_against": run.pruned_against, "until": run.until}
        if lost <= LOSSES:
            self._create(TrialState.WAITING, attributes)
            return
        host = run.worker["host"] if run.worker else "an unknown host"
        message = f"{lost} workers died while they ran it, the last one on {host}."
        with suppress(RunError):
            write_record(self.folder_of(run).error_file, Failure("WorkerDied", message))
        self._create(TrialState.FAIL, {**attributes, "error": message})

    def _create(self, state: TrialState, attributes: dict[str, Any]) -> None:
        began = None if state is TrialState.WAITING else datetime.now()
        ended = began if state.is_finished() else None
        trial = FrozenTrial(
            number=-1, trial_id=-1, state=state, value=None, datetime_start=began, datetime_complete=ended,
            params={}, distributions={}, user_attrs=attributes, system_attrs={}, intermediate_values={},
        )  # fmt: skip
        self.store.storage.create_new_trial(self.store.id, trial)  # add_trial wants a value of one that has finished

    def _settle(self, run: QueuedRun, state: TrialState, attributes: dict[str, Any]) -> None:
        storage = self.store.storage
        with self.store.explained_errors(), suppress(UpdateFinishedTrialError):  # another took this worker for dead
            for name, item in attributes.items():
                storage.set_trial_user_attr(run.trial, name, item)
            storage.set_trial_state_values(run.trial, state)


def _paused_in(folder: RunFolder) -> Paused | None:
    """Return where the run in a folder is paused; None if it is not, has failed since, or has a damaged file."""
    if folder.error_file.is_file():
        return None
    try:
        pauses = read_pauses(folder)
    except RunError:
        return None
    return None if pauses is None else {"step": pauses.step, "total": pauses.of_steps}


def _fault(folder: RunFolder) -> str | None:
    """Return why the scores of a finished run cannot be used; None if they can."""
    try:
        scores = read_record(folder.scores_file, Scores)
    except RunError as error:
        return str(error)
    value = scores.dev.get(scores.metric)
    if value is None or not isfinite(value):
        return f"scores.json: {scores.metric} on dev is {value}, expected a finite number."
    return None


def _ended(fault: str | None) -> tuple[TrialState, dict[str, Any]]:
    """Return the state and further attributes of a run that has ended."""
    return (TrialState.COMPLETE, {}) if fault is None else (TrialState.FAIL, {"error": fault})
