"""Train a study on a Ray cluster: each Ray task claims one run from the study's store and trains it, as a worker."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.import_path import current_folder
from gradgate.runs.progress import RunProgress
from gradgate.runs.state import RunState
from gradgate.study.progress import SilentStudy, StudyProgress
from gradgate.study.search import advance
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.queued_run import QueuedRun
from gradgate.study.workers.starting import child_path, safely_started
from gradgate.study.workers.store import open_store
from gradgate.study.workers.worker import Workers, counts, pause_line, scores_line

_LOOK = 1.0  # seconds between two looks at the queue
_SAVING = 120.0  # seconds for stopped runs to save


@dataclass(frozen=True)
class RayCluster:
    """The Ray cluster that a study runs on.

    Attributes:
        address: for ``ray.init``: ``host:port``, ``auto``, or ``local`` to start Ray on this machine.
        gpus_per_run: GPUs of one run, such as 0.5; 0 for the CPU; None for one if the cluster has any.
        cpus_per_run: CPU cores of one run.
    """

    address: str
    gpus_per_run: float | None = None
    cpus_per_run: int = 1


def run_on_ray(
    cluster: RayCluster,
    queue: Queue,
    url: str | None,
    cache: Path,
    progress: StudyProgress,
    stop: Event,
    trust_remote_code: bool = False,
) -> None:
    """Train what waits; return once nothing waits or runs, or when stopped.

    Every node must see the study's folder, and its store if that is a server.

    Raises:
        UsageError: if Ray is not installed.
        RunError: if no cluster can be reached or started.
        StoreError: if the store fails.
    """
    remote = _RemoteProgress(progress, queue)
    folder = queue.store.folder.resolve()
    tasks: list[Any] = []
    with _connected(cluster) as ray:
        gpus = cluster.gpus_per_run
        if gpus is None:
            gpus = min(1.0, ray.cluster_resources().get("GPU", 0.0))
        resources = {"num_cpus": cluster.cpus_per_run, "num_gpus": gpus}
        train = ray.remote(**resources, max_retries=0)(_task(current_folder(), child_path()))
        while not stop.is_set():
            queue.recover()
            remote.update(runs := queue.runs())
            left = sum(run.is_open for run in runs)
            if tasks:
                tasks = ray.wait(tasks, num_returns=len(tasks), timeout=0)[1]
            if not left and not advance(queue):
                return
            tasks += [
                train.remote(str(folder), url, str(cache.resolve()), trust_remote_code)
                for _ in range(left - len(tasks))
            ]
            stop.wait(_LOOK)
        for task in tasks:
            ray.cancel(task)
        if tasks:
            ray.wait(tasks, num_returns=len(tasks), timeout=_SAVING)


@contextmanager
def _connected(cluster: RayCluster) -> Iterator[Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError("ray= needs Ray: pip install 'gradgate[ray]'.") from None
    try:
        options = {"include_dashboard": False} if cluster.address == "local" else {}
        with safely_started():
            ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except Exception as error:  # Ray raises plain ones too
        raise RunError(
            f"ray={cluster.address}: no cluster answers there ({error}). Expected host:port, auto or local. Check "
            f"the address and that the cluster runs; the waiting runs stay in the study, for 'gradgate worker' or "
            f"another try."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _task(current: str, path: list[str]) -> Callable[..., None]:
    """Return the function of a Ray task, which takes the driver's current folder off the import path first.

    Ray puts that folder in front of all others. It sends an inner function as code, while it would import this module
    for one that the module defines.

    Args:
        current: the folder.
        path: of the processes that this one starts; it may have the folder at another place.
    """

    def train(folder: str, url: str | None, cache: str, trust_remote_code: bool) -> None:
        import sys

        sys.path[:] = [each for each in sys.path if each != current] + [each for each in path if each == current]
        from gradgate.study.workers.ray import train_one

        train_one(folder, url, cache, trust_remote_code)

    return train


def train_one(folder: str, url: str | None, cache: str, trust_remote_code: bool) -> None:
    """Train one run in a Ray task; when the task is cancelled, the run is saved first."""
    queue = Queue(open_store(Path(folder), url))
    try:
        workers = Workers(queue, Path(cache), SilentStudy(), Event(), trust_remote_code=trust_remote_code)
        workers.work_once()
    finally:
        queue.store.close()


class _RemoteProgress:
    """Reports the progress of runs on other machines, read from the store."""

    def __init__(self, progress: StudyProgress, queue: Queue) -> None:
        self._progress = progress
        self._queue = queue
        self._seen = {run.fingerprint: (run.trial, run.state) for run in queue.runs()}
        self._steps: dict[str, RunProgress] = {}

    def update(self, runs: list[QueuedRun]) -> None:
        """Report what has changed since the last call."""
        for run in runs:
            now = run.trial, run.state  # a paused run that was resumed is another trial
            before, self._seen[run.fingerprint] = self._seen.get(run.fingerprint), now
            if run.state is RunState.RUNNING:
                self._advance(run)
            elif before != now and not run.is_open:
                if self._steps.pop(run.fingerprint, None) is None:
                    self._progress.begin_run(run.label)
                outcome = run.error or "stopped early"
                if run.state is RunState.FINISHED:
                    outcome = scores_line(self._queue.folder_of(run))
                elif run.state is RunState.PAUSED:
                    outcome = pause_line(self._queue.folder_of(run))
                self._progress.end_run(run.label, outcome, run.state is RunState.FAILED)
        self._progress.count(counts(runs))  # last: what has just ended is counted once

    def _advance(self, run: QueuedRun) -> None:
        if run.fingerprint not in self._steps:
            self._steps[run.fingerprint] = self._progress.begin_run(run.label)
        if run.progress:
            steps = self._steps[run.fingerprint]
            steps.begin(run.progress["total"], run.progress["step"])
            steps.advance(run.progress["step"], run.progress["loss"])
