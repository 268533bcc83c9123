"""Workers: each claims one waiting run after another, trains it in a process of its own and stores what came out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from gradgate.errors import StoreError
from gradgate.files import read_json
from gradgate.study.progress import StudyProgress
from gradgate.study.queue import Queue, QueuedRun, this_worker
from gradgate.study.run_process import run_in_process
from gradgate.study.search import advance
from gradgate.study.status import open_queue
from gradgate.tasks.languages import average_label
from gradgate.training.interrupt import InterruptedRunError, stoppable
from gradgate.training.progress import RunProgress
from gradgate.training.run_folder import CACHE_FOLDER, RunFolder

_IDLE = 0.5  # seconds between two looks for a run to claim
_LOOK = 2.0  # seconds between two counts of the queue
_TRIES = 6


class Workers:
    """Workers of one process, each a thread that follows one run's process at a time.

    Args:
        queue: what to do.
        cache: the folder of the activation cache that the runs share.
        progress: hears of each run.
        stop: when set, each worker has its run saved and ends.
        linger: stay when nothing waits or runs, for runs that are added later.
    """

    def __init__(
        self, queue: Queue, cache: Path, progress: StudyProgress, stop: Event, *, linger: bool = False
    ) -> None:
        self.queue = queue
        self.cache = cache
        self.progress = progress
        self.linger = linger
        self._stop = stop
        self._kill = Event()

    def work(self, count: int = 1) -> None:
        """Return when nothing waits or runs any more, here or elsewhere, or when stopped.

        Raises:
            StoreError: if the store fails; the runs under way are saved first.
        """
        with ThreadPoolExecutor(count, thread_name_prefix="gradgate-worker") as pool:
            crew = [pool.submit(self._work, slot) for slot in range(count)]
            try:
                self._watch(crew)
            except BaseException:
                self._kill.set()
                self._stop.set()
                raise
        for worker in crew:
            worker.result()
        self._count()

    def work_once(self) -> None:
        """Train one run, if one waits. The first KeyboardInterrupt has it saved, and is not passed on."""
        with ThreadPoolExecutor(1, thread_name_prefix="gradgate-worker") as pool:
            job = pool.submit(self._claim_and_train)
            while not job.done():
                try:
                    wait_for([job], timeout=0.2)
                except KeyboardInterrupt:
                    self._stop.set()
        job.result()

    def _claim_and_train(self) -> None:
        run = self.queue.claim(this_worker())
        if run is not None:
            self._train(run)

    def _watch(self, crew: list[Future[None]]) -> None:
        counted = 0.0
        while not all(worker.done() for worker in crew):
            wait_for(crew, timeout=0.2, return_when=FIRST_EXCEPTION)
            if any(worker.done() and worker.exception() for worker in crew):
                self._stop.set()
            if time.monotonic() - counted > _LOOK and not self._stop.is_set():
                self._count()
                counted = time.monotonic()

    def _count(self) -> None:
        self.progress.count(counts(self.queue.runs()))

    def _work(self, slot: int) -> None:
        worker = this_worker(slot)
        looked, each = 0.0, max(1.0, self.queue.store.heartbeat.grace / 6)
        while not self._stop.is_set():
            if time.monotonic() - looked > each:
                self.queue.recover()
                looked = time.monotonic()
            run = self.queue.claim(worker)
            if run is not None:
                self._train(run)
            elif advance(self.queue):
                continue
            elif self.linger or any(other.state in ("waiting", "running") for other in self.queue.runs()):
                self._stop.wait(_IDLE)
            else:
                return

    def _train(self, run: QueuedRun) -> None:
        folder = self.queue.folder_of(run)
        heard = _Heard(self.progress.begin_run(run.label), lambda step, score: self._is_poor(run, step, score))
        ending, reason = "finished", ""
        if not folder.finished:
            with _beating(self.queue, run, heard):
                ending, reason = run_in_process(
                    run.config, folder, self.cache, heard, lambda: heard.poor or self._stop.is_set(), self._kill
                )
        if ending == "stopped" and heard.poor:
            self._patiently(lambda: self.queue.prune(run))
            self.progress.end_run(run.label, "stopped early, below the median of its search", False)
            return
        if ending in ("stopped", "locked"):
            self._patiently(lambda: self.queue.give_back(run))
            return
        if ending == "finished":
            self._patiently(lambda: self.queue.finish(run))
        else:
            self._patiently(lambda: self.queue.fail(run, reason))
        self.progress.end_run(run.label, reason or scores_line(folder), ending == "failed")

    def _is_poor(self, run: QueuedRun, step: int, score: float) -> bool:
        """Note a dev score. Whether its run should end early."""
        if not run.pruned_against:
            return False
        try:
            return self.queue.is_below_median(run, step, score)
        except StoreError:
            return False

    def _patiently(self, tell: Callable[[], None]) -> None:
        """Tell the store, which may be away for a while."""
        for left in reversed(range(_TRIES)):
            try:
                tell()
                return
            except StoreError:
                if not left:
                    raise
                self._stop.wait(self.queue.store.heartbeat.interval)


def join(folder: Path, store: str | None, progress: StudyProgress, count: int = 1, *, linger: bool = False) -> int:
    """Work on a study that was begun elsewhere. Returns how many of its runs have failed.

    Raises:
        RunError: if the folder holds no study.
        StoreError: if the store fails.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the worker after saving its runs.
    """
    queue = open_queue(folder, store)
    runs = queue.runs()
    progress.begin_study(len(runs), sum(run.state == "finished" for run in runs))
    try:
        with stoppable(progress.note) as stop:
            Workers(queue, folder / CACHE_FOLDER, progress, stop, linger=linger).work(count)
            if stop.is_set():
                raise InterruptedRunError(f"Stopped; the runs of {folder} are saved. Any worker goes on with them.")
        return sum(run.state == "failed" for run in queue.runs())
    finally:
        queue.store.close()


class _Heard:
    """Passes on what a run tells, and remembers how far it is, and whether a dev score was too poor to go on."""

    def __init__(self, progress: RunProgress, is_poor: Callable[[int, float], bool]) -> None:
        self._progress = progress
        self._is_poor = is_poor
        self.poor = False
        self.latest: dict[str, Any] = {}

    def begin(self, total: int, done: int) -> None:
        self.latest = {"step": done, "total": total, "loss": None}
        self._progress.begin(total, done)

    def advance(self, step: int, loss: float | None) -> None:
        self.latest = {**self.latest, "step": step, "loss": loss}
        self._progress.advance(step, loss)

    def scored(self, split: str, metric: str, score: float) -> None:
        self._progress.scored(split, metric, score)
        if split == "dev" and self.latest and self.latest["step"] < self.latest["total"]:
            self.poor = self.poor or self._is_poor(self.latest["step"], score)

    def note(self, text: str) -> None:
        self._progress.note(text)


@contextmanager
def _beating(queue: Queue, run: QueuedRun, heard: _Heard) -> Iterator[None]:
    """Show the store that the worker lives until the block ends."""
    ended = Event()

    def beat() -> None:
        while not ended.wait(queue.store.heartbeat.interval):
            try:
                queue.beat(run, heard.latest)
            except StoreError as error:
                heard.note(f"{run.label}: no sign of life can be given: {error}")

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def counts(runs: list[QueuedRun]) -> dict[str, int]:
    """How many runs are in each state."""
    return dict(Counter(run.state for run in runs))


def scores_line(folder: RunFolder) -> str:
    """What a finished run scored, for people."""
    scores = read_json(folder.scores_file)
    metric = scores["metric"]
    averages = {average_label(name): values for name, values in scores.get("averages", {}).items()}
    splits = {"dev": scores["dev"], **(averages or scores["tests"])}
    return ", ".join(f"{split} {metric} {values[metric]:.4f}" for split, values in splits.items())
