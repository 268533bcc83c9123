"""Define the folder of one run: its files, the configuration that owns it, and the lock of its writer."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gradgate.errors import FolderLockedError, RunError
from gradgate.files import (
    NoLocksError,
    below,
    check_name,
    read_json,
    refuse_used,
    remedy,
    take_lock,
    write_json,
    write_text,
)
from gradgate.methods.timeline import Timeline
from gradgate.replacing import remove_parts
from gradgate.runs.checkpoints import latest_checkpoint
from gradgate.settings.same import differing

if TYPE_CHECKING:
    from filelock import FileLock

CACHE_FOLDER = "cache"
RUNS_FOLDER = "runs"
"""The folder in a study's that has ``ARM/seed-N`` of each run."""
STUDY_FILE = "study.json"
LOCK_FILE = "run.lock"
_WRITTEN = (
    "checkpoints",
    "best",
    "weights",
    CACHE_FOLDER,
    "language-adapters",
    "tapt",
    "model",
    "heads",
    "predictions",
)


class Recorded(Protocol):
    """Settings that a folder is claimed for."""

    def record(self) -> dict[str, Any]:
        """Return plain JSON values."""


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run and the rules for writing them: every file is whole or absent."""

    path: Path

    @property
    def run_file(self) -> Path:
        """Configuration, versions, data and model of the run."""
        return self.path / "run.json"

    @property
    def scores_file(self) -> Path:
        """Dev and test scores and costs; there if and only if the run has finished."""
        return self.path / "scores.json"

    @property
    def error_file(self) -> Path:
        """The error of the latest attempt."""
        return self.path / "error.json"

    @property
    def history_file(self) -> Path:
        """Losses and dev scores by step, one JSON object per line."""
        return self.path / "history.jsonl"

    @property
    def fisher_file(self) -> Path:
        """The Fisher information of each layer by step, one JSON object per line; of a run that tracks it."""
        return self.path / "fisher.jsonl"

    @property
    def pauses_file(self) -> Path:
        """Dev scores at the steps where the run was paused; of one that was."""
        return self.path / "pauses.json"

    @property
    def trackers_file(self) -> Path:
        """The logs that trackers have received, for a run that reports to any."""
        return self.path / "trackers.json"

    @property
    def tensorboard(self) -> Path:
        """The event files of TensorBoard; of a run that reports to it."""
        return self.path / "tensorboard"

    @property
    def mlflow(self) -> Path:
        """MLflow's database, which the runs of a study share; of runs that report to it."""
        return (self.study or self.path) / "mlflow"

    @property
    def study(self) -> Path | None:
        """The folder of the study that the run is one of; None for a run of its own."""
        above = self.path.absolute().parents
        is_one = len(above) > 2 and above[1].name == RUNS_FOLDER and (above[2] / STUDY_FILE).is_file()
        return above[2] if is_one else None

    @property
    def plan_file(self) -> Path:
        """The plan: which groups were open at which step."""
        return self.path / "plan.yaml"

    @property
    def checkpoints(self) -> Path:
        """Trainer's checkpoints; removed when the run has finished."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """The weights with the best dev score so far."""
        return self.path / "best"

    @property
    def weights(self) -> Path:
        """The trained weights at each score on dev, for a run that keeps them."""
        return self.path / "weights"

    @property
    def cache(self) -> Path:
        """The cached output of closed layers, for a run that shares it with no other."""
        return self.path / CACHE_FOLDER

    @property
    def language_adapters(self) -> Path:
        """Copies of the frozen language adapters that the run began with, a folder for each language."""
        return self.path / "language-adapters"

    @property
    def tapt(self) -> Path:
        """Task-adaptive pretraining: a folder like this one, and what learned: the adapter, or :attr:`encoder`."""
        return self.path / "tapt"

    @property
    def encoder(self) -> Path:
        """The model without its head, as pretraining on masked words left it."""
        return self.path / "encoder.safetensors"

    @property
    def model(self) -> Path:
        """The best model with its tokenizer."""
        return self.path / "model"

    @property
    def lock_file(self) -> Path:
        """Locked while a process trains here, which it names."""
        return self.path / LOCK_FILE

    @property
    def heads(self) -> Path:
        """``TASK.safetensors`` for each of several tasks that were trained at once on the encoder in ``model``."""
        return self.path / "heads"

    @property
    def predictions(self) -> Path:
        """``SPLIT.jsonl`` for dev and each test split: what the best model predicts, one JSON object per row.

        Of several tasks, ``TASK/SPLIT.jsonl``.
        """
        return self.path / "predictions"

    @property
    def finished(self) -> bool:
        """Whether the run has ended and its scores are written."""
        return self.scores_file.is_file()

    def require_scores(self) -> None:
        """Raise RunError if the folder has no run, or one that has not finished."""
        if not self.run_file.is_file():
            inside = next(iter(sorted(self.path.glob(f"runs/*/*/{self.run_file.name}"))), None)
            advice = "Name a folder that `train` made." if inside is None else f"Name a run of it, as {inside.parent}."
            raise RunError(f"{self.path} holds no run: {self.run_file} is missing. {advice}")
        if not self.finished:
            raise RunError(f"The run in {self.path} has not finished. Run its command again to finish it first.")

    def require_finished(self) -> None:
        """Refuse a folder without a model to load.

        Raises:
            RunError: if it has no run, one that has not finished, or one without its model.
        """
        self.require_scores()
        if self.model.is_dir():
            return
        if read_json(self.run_file).get("config", {}).get("keep_model", True):
            raise RunError(f"{self.model} has been removed. Put it back, or train again with another out=.")
        raise RunError(f"The run in {self.path} kept no model ({self.model} is missing). Train with keep_model=True.")

    def claim(self, config: Recorded, processes: int = 1) -> None:
        """Make this configuration the owner of the folder, or check that it already is.

        A run that stopped before its first step, as over a wrong setting, loses its folder.

        Args:
            config: the settings.
            processes: that train together.

        Raises:
            RunError: if the folder contains a run with another configuration, one that another number of processes
                has begun, or files that are not a run.
        """
        if self.run_file.is_file():
            others = self._differing(config)
            if not others:
                self._continue(processes)
                return
            if self.history_file.is_file():
                listed = ", ".join(f"{key}: {there!r} there, {here!r} here" for key, (there, here) in others.items())
                raise RunError(
                    f"{self.path} already holds a run with another configuration ({listed}). "
                    f"Pass another out=, such as {self._free_name()}, or remove the folder if the run is not needed."
                )
        else:
            self.refuse_other_files()
        write_json(self.run_file, {"config": config.record(), "processes": processes})

    def _continue(self, processes: int) -> None:
        """Record the number of processes of a run that has not begun, or check that it is that of one that has."""
        record = read_json(self.run_file)
        begun = record.get("processes")
        if begun == processes or self.finished:
            return
        has_trained = self.history_file.is_file() or RunFolder(self.tapt).history_file.is_file()
        if begun is not None and has_trained:
            raise RunError(
                f"{self.path} was started with another number of processes ({begun} there, {processes} here), so each "
                "would see other batches. Launch the same number, or pass another out=."
            )
        write_json(self.run_file, {**record, "processes": processes})

    def is_done(self, config: Recorded) -> bool:
        """Return True if the run of this configuration has finished here.

        Raises:
            RunError: if the existing configuration cannot be read.
        """
        return self.finished and self.run_file.is_file() and not self._differing(config)

    def _differing(self, config: Recorded) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ from those of the existing run, each as it is there and here."""
        existing = read_json(self.run_file).get("config")
        if not isinstance(existing, dict):
            raise RunError(f"{self.run_file} is damaged: it holds no configuration. {remedy(self.run_file)}")
        return differing(existing, config.record(), self.path)

    def _free_name(self) -> Path:
        others = (self.path.with_name(f"{self.path.name}-{number}") for number in count(2))
        return next(path for path in others if not path.exists())

    def claim_alone(self, config: Recorded, processes: int, locks: ExitStack) -> bool:
        """Claim the folder, and lock it until ``locks`` is closed; a finished one needs no lock.

        Returns:
            Whether the run has finished.

        Raises:
            FolderLockedError: if another process trains in the folder.
            RunError: as :meth:`claim`.
        """
        if not self.finished:
            locks.enter_context(self.locked())
        self.claim(config, processes)
        return self.finished

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for writing; the lock ends with the process. Without locks in the file system, do nothing.

        Raises:
            FolderLockedError: if another process has it.
            RunError: if nothing can be written, or the folder contains files that are not a run, or links.
        """
        self.refuse_other_files()
        check_name(self.path)
        for name in _WRITTEN:
            below(self.path, name)
        lock = self._lock()
        try:
            if lock is not None:
                self._remove_parts()
            yield
        finally:
            if lock is not None:
                lock.release()

    @property
    def is_locked(self) -> bool:
        """Whether a process trains in the folder."""
        try:
            lock = take_lock(self.lock_file) if self.lock_file.is_file() else None
        except OSError:
            return False
        if lock is not None:
            lock.release()
        return lock is None and self.lock_file.is_file()

    def _remove_parts(self) -> None:
        """Remove the half-written files of a process that was killed: each may be as large as the model."""
        with suppress(OSError):
            for place in (self.path, *(self.path / name for name in _WRITTEN)):
                for folder in (place, *(each for each in place.glob("*") if place != self.path and each.is_dir())):
                    remove_parts(folder)

    def _lock(self) -> FileLock | None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = take_lock(self.lock_file)
        except NoLocksError:
            return None
        except OSError as error:
            raise RunError(
                f"Cannot write {self.lock_file}: {error.strerror or error}. Make the folder writable, or pass another "
                f"out=."
            ) from error
        if lock is not None:
            with suppress(OSError):
                self.lock_file.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
            return lock
        holder = "another process"
        with suppress(OSError, UnicodeDecodeError):
            holder = self.lock_file.read_text(encoding="utf-8") or holder
        raise FolderLockedError(
            f"{self.path} is being trained by {holder}. Wait until it has ended, or pass another out=."
        )

    def refuse_other_files(self) -> None:
        """Raise UsageError for a file, and RunError for a folder with anything but a run."""
        if not self.run_file.is_file():
            refuse_used(self.path, "holds no run")

    def latest_checkpoint(self) -> Path | None:
        """Return the newest whole checkpoint; raise RunError if all existing ones are damaged."""
        return latest_checkpoint(self.checkpoints)

    def write_plan(self, timeline: Timeline) -> None:
        """Write which weights were open when."""
        write_text(self.plan_file, timeline.to_yaml())

    def clean(self) -> None:
        """Remove the files that only an unfinished run needs."""
        for folder in (self.checkpoints, self.best, self.cache):
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            self.lock_file.unlink()

    def abandon(self) -> None:
        """Remove the files that a paused run would resume from; its scores so far stay.

        If the run is trained again, it starts over and reaches the same scores.

        Raises:
            FolderLockedError: if a process trains in the folder.
        """
        with self.locked():
            self.clean()
            shutil.rmtree(self.language_adapters, ignore_errors=True)
            pretraining = RunFolder(self.tapt)
            pretraining.clean()
            pretraining.encoder.unlink(missing_ok=True)
