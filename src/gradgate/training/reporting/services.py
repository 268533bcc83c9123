"""Open a run in TensorBoard, Weights & Biases, MLflow and Trackio, and close it; Trainer's callbacks log in between."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from gradgate.runs.folder import RunFolder

PROJECT = "gradgate"
"""The project or experiment of runs for which the environment names no other."""
_LONGEST_TAG = 64  # characters, in Weights & Biases


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker shows it.

    Attributes:
        folder: of the run.
        id: tells it from other runs of the same settings.
        name: of the run, for people.
        tags: what the run is: model, task, arm, seed, and the study's name if it is one of a study.
        resumed: the tracker's own name of the run, if it has been there before.
        is_new: whether the tracker has received nothing of the run.
    """

    folder: RunFolder
    id: str
    name: str
    tags: Mapping[str, str]
    resumed: str | None
    is_new: bool


class Service(Protocol):
    """One tracker during one training.

    Attributes:
        remedy: what to do if it cannot be opened.
    """

    remedy: str

    def open(self, callback: Any, run: TrackedRun) -> str | None:
        """Open the run before Trainer's callback does; return the tracker's own name of the run."""

    def close(self, failed: bool) -> None:
        """Close the run; in some trackers it is marked as failed."""


class TensorBoard:
    """Event files in the run's folder, in one more file per resume."""

    remedy = "Make the run's folder writable, or free space."

    def open(self, callback: Any, run: TrackedRun) -> None:
        self._callback = callback
        callback.logging_dir = str(run.folder.tensorboard)
        if run.is_new:
            writer = callback._SummaryWriter(log_dir=callback.logging_dir)
            writer.add_text("gradgate", "\n".join(f"- {name}: {value}" for name, value in run.tags.items()))
            callback.tb_writer = writer

    def close(self, failed: bool) -> None:
        if self._callback.tb_writer is not None:
            self._callback.tb_writer.close()
            self._callback.tb_writer = None


class Wandb:
    """A run of Weights & Biases; in one that a script has begun, Trainer's callback logs and nothing is closed."""

    remedy = "Log in with 'wandb login', or set WANDB_MODE=offline."

    def open(self, callback: Any, run: TrackedRun) -> str | None:
        wandb: Any = import_module("wandb")
        self._own = None
        if wandb.run is None:
            self._own = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=run.name,
                id=run.resumed or run.id,
                resume="allow",
                dir=str(run.folder.path),
                group=run.tags.get("study"),
                tags=[f"{name}: {value}"[:_LONGEST_TAG] for name, value in run.tags.items()],
                config={"gradgate": dict(run.tags)},
            )
        return str(wandb.run.id)

    def close(self, failed: bool) -> None:
        if self._own is not None:
            self._own.finish(exit_code=int(failed))


class MLflow:
    """A run of MLflow: where the environment or the script says, else in a file of the study's or the run's folder."""

    remedy = "Check MLFLOW_TRACKING_URI, or leave it unset to log into the run's folder."

    def open(self, callback: Any, run: TrackedRun) -> str:
        mlflow: Any = import_module("mlflow")
        self._mlflow, self._is_local, self._own = mlflow, not mlflow.is_tracking_uri_set(), None
        if self._is_local:
            self._begin_file(run.folder.mlflow)
        if mlflow.active_run() is None:
            if not self._is_local:
                mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
            self._own = mlflow.start_run(run_id=run.resumed, run_name=run.name, tags=dict(run.tags))
        return str(mlflow.active_run().info.run_id)

    def _begin_file(self, folder: Path) -> None:
        """Log into a database in a folder, which may be the one of a whole study, and keep artifacts next to it."""
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
        folder.mkdir(parents=True, exist_ok=True)
        self._mlflow.set_tracking_uri(f"sqlite:///{folder.absolute() / 'mlflow.db'}")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        with FileLock(folder / "mlflow.lock"):  # two runs that created its tables would meet
            client = self._mlflow.MlflowClient()
            if client.get_experiment_by_name(name) is None:
                client.create_experiment(name, artifact_location=(folder.absolute() / "artifacts").as_uri())
        self._mlflow.set_experiment(name)

    def close(self, failed: bool) -> None:
        if self._own is not None and self._mlflow.active_run() is not None:
            self._mlflow.end_run("FAILED" if failed else "FINISHED")
        if self._is_local:  # MLflow has set the environment, which the next training would take for its user's wish
            self._mlflow.set_tracking_uri(None)


class Trackio:
    """A run of Trackio, in its own local store; Trainer's callback opens it."""

    remedy = "See TRACKIO_DIR for its local store, and TRACKIO_SPACE_ID for a Space."

    def open(self, callback: Any, run: TrackedRun) -> None:
        trackio: Any = import_module("trackio")
        self._trackio, self._callback = trackio, callback
        begin = callback.setup

        def setup(*args: Any, **kwargs: Any) -> None:
            begin(*args, **kwargs)
            trackio.config.update({f"gradgate/{name}": value for name, value in run.tags.items()})

        callback.setup = setup

    def close(self, failed: bool) -> None:
        if self._callback._initialized:
            self._trackio.finish()
            self._callback._initialized = False


SERVICES: Mapping[str, type[Service]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": MLflow,
    "trackio": Trackio,
}
