"""Work on a study: claim one waiting run after another, train each in a process of its own, record how it ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from gradgate.errors import RunError, StoreError, UsageError
from gradgate.runs.folder import CACHE_FOLDER, RunFolder
from gradgate.runs.interrupt import InterruptedRunError, stoppable
from gradgate.runs.pauses import read_progress
from gradgate.runs.progress import RunProgress
from gradgate.runs.scores import read_scores
from gradgate.runs.state import RunState
from gradgate.study.progress import StudyProgress
from gradgate.study.search import advance
from gradgate.study.status import open_queue
from gradgate.study.study_file import damage_of
from gradgate.study.workers.process import run_in_process
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.queued_run import QueuedRun, StepsDone, this_worker
from gradgate.tasks.languages import average_label

_IDLE = 0.5  # seconds between two looks for a run to claim
_LOOK = 2.0  # seconds between two counts of the queue
_TRIES = 6


class Workers:
    """Workers of one process, each a thread that follows one run's process at a time.

    Args:
        queue: the runs.
        cache: the folder of the activation cache that the runs share.
        progress: is called for each run.
        stop: when set, each worker has its run saved and ends.
        linger: stay when nothing waits or runs, for runs that are added later.
        trust_remote_code: train runs that execute code from a model's folder or repository. The study cannot decide
            this: whoever starts the workers must.
    """

    def __init__(
        self,
        queue: Queue,
        cache: Path,
        progress: StudyProgress,
        stop: Event,
        *,
        linger: bool = False,
        trust_remote_code: bool = False,
    ) -> None:
        self.queue = queue
        self.cache = cache
        self.progress = progress
        self.linger = linger
        self.trust_remote_code = trust_remote_code
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
            self._train_or_give_back(run)

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
                self._train_or_give_back(run, slot)
            elif advance(self.queue):
                continue
            elif self.linger or any(other.is_open for other in self.queue.runs()):
                self._stop.wait(_IDLE)
            else:
                return

    def _train_or_give_back(self, run: QueuedRun, slot: int = 0) -> None:
        """Train a run; if anything fails here, return it to the queue."""
        try:
            check_trust([run], self.trust_remote_code)
            self._train(run, slot)
        except BaseException:
            with suppress(StoreError):
                self.queue.give_back(run)
            raise

    def _train(self, run: QueuedRun, slot: int) -> None:
        folder = self.queue.folder_of(run)
        tracker = _Tracker(self.progress.begin_run(run.label), lambda done, score: self._is_poor(run, done, score))
        self._set_damaged_scores_aside(run, folder)
        state, reason = RunState.FINISHED, ""
        if not folder.finished:
            with _heartbeat(self.queue, run, tracker):
                state, reason = run_in_process(
                    run.config,
                    folder,
                    self.cache,
                    tracker,
                    lambda: tracker.poor or self._stop.is_set(),
                    self._kill,
                    run.until,
                    slot,
                )
        if state is RunState.WAITING and tracker.poor:
            self._retry(lambda: self.queue.prune(run))
            self.progress.end_run(run.label, "stopped early, below the median of its search", False)
        elif state is RunState.WAITING:
            self._retry(lambda: self.queue.give_back(run))
        elif state is RunState.FAILED:
            self._retry(lambda: self.queue.fail(run, reason))
            self.progress.end_run(run.label, reason, True)
        elif state is RunState.PAUSED:
            self._retry(lambda: self.queue.pause(run))
            self.progress.end_run(run.label, pause_line(folder), False)
        else:
            self._retry(lambda: self.queue.finish(run))
            self.progress.end_run(run.label, scores_line(folder), False)

    def _set_damaged_scores_aside(self, run: QueuedRun, folder: RunFolder) -> None:
        """Let a finished run be trained again if its scores cannot be read."""
        damage = damage_of(folder)
        if damage is None:
            return
        aside = folder.scores_file.with_name(f"{folder.scores_file.name}.damaged-{time.time_ns()}")
        try:
            folder.scores_file.rename(aside)
        except OSError as error:
            raise RunError(
                f"{damage} It cannot be renamed to {aside.name}: {error.strerror or error}. Make "
                f"{folder.path} writable."
            ) from error
        self.progress.note(f"{run.label}: {damage} The file is kept as {aside.name}, and the run is trained again.")

    def _is_poor(self, run: QueuedRun, done: StepsDone, score: float) -> bool:
        """Record a dev score. Return whether its run should end early."""
        if not run.pruned_against:
            return False
        try:
            return self.queue.is_below_median(run, done, score)
        except StoreError:
            return False

    def _retry(self, write: Callable[[], None]) -> None:
        """Write to the store, several times if it cannot be reached for a while."""
        for left in reversed(range(_TRIES)):
            try:
                write()
                return
            except StoreError:
                if not left:
                    raise
                self._stop.wait(self.queue.store.heartbeat.interval)


def join(
    folder: Path,
    store: str | None,
    progress: StudyProgress,
    count: int = 1,
    *,
    linger: bool = False,
    trust_remote_code: bool = False,
) -> int:
    """Work on a study that was started elsewhere. Return the number of runs that have failed.

    Raises:
        RunError: if the folder holds no study.
        UsageError: if its runs execute code that comes with a model, and ``trust_remote_code`` is false.
        StoreError: if the store fails.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the worker after saving its runs.
    """
    queue = open_queue(folder, store)
    runs = queue.runs()
    try:
        check_trust([run for run in runs if run.state is RunState.WAITING], trust_remote_code)
        progress.begin_study(len(runs), sum(run.state is RunState.FINISHED for run in runs))
        with stoppable(progress.note) as stop:
            workers = Workers(
                queue, folder / CACHE_FOLDER, progress, stop, linger=linger, trust_remote_code=trust_remote_code
            )
            workers.work(count)
            if stop.is_set():
                raise InterruptedRunError(f"Stopped; the runs of {folder} are saved. Any worker resumes them.")
        return sum(queue.failure_of(run) is not None for run in queue.runs())
    finally:
        queue.store.close()


def check_trust(runs: Sequence[QueuedRun], trust_remote_code: bool) -> None:
    """Refuse runs that execute code that comes with a model, unless whoever runs the command allows it.

    Raises:
        UsageError: if a run wants it and ``trust_remote_code`` is false.
    """
    for run in runs:
        if run.config.get("trust_remote_code") and not trust_remote_code:
            raise UsageError(
                f"{run.label} runs code from the model {run.config.get('model')}, because the study was started "
                "with trust_remote_code=True. Pass trust_remote_code=True here too if you trust that code."
            )


class _Tracker:
    """Passes on the progress of a run, and remembers how far it is and whether a dev score was too poor to continue."""

    def __init__(self, progress: RunProgress, is_poor: Callable[[StepsDone, float], bool]) -> None:
        self._progress = progress
        self._is_poor = is_poor
        self.poor = False
        self.latest: StepsDone | None = None

    def begin(self, total: int, done: int) -> None:
        self.latest = {"step": done, "total": total, "loss": None}
        self._progress.begin(total, done)

    def advance(self, step: int, loss: float | None) -> None:
        if self.latest is not None:
            self.latest = {"step": step, "total": self.latest["total"], "loss": loss}
        self._progress.advance(step, loss)

    def scored(self, split: str, metric: str, score: float) -> None:
        self._progress.scored(split, metric, score)
        if split == "dev" and self.latest and self.latest["step"] < self.latest["total"]:
            self.poor = self.poor or self._is_poor(self.latest, score)

    def note(self, text: str) -> None:
        self._progress.note(text)


@contextmanager
def _heartbeat(queue: Queue, run: QueuedRun, tracker: _Tracker) -> Iterator[None]:
    """Show the store that the worker lives until the block ends."""
    ended = Event()

    def beat() -> None:
        while not ended.wait(queue.store.heartbeat.interval):
            try:
                queue.beat(run, tracker.latest)
            except StoreError as error:
                tracker.note(f"{run.label}: its heartbeat cannot be written: {error}")

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def counts(runs: Iterable[QueuedRun]) -> dict[RunState, int]:
    """Return state to number of runs."""
    return dict(Counter(run.state for run in runs))


def scores_line(folder: RunFolder) -> str:
    """Return the scores of a finished run as text."""
    try:
        scores = read_scores(folder.scores_file)
    except RunError as error:
        return str(error)
    averages = {average_label(name): values for name, values in scores.averages.items()}
    splits = {"dev": scores.dev, **(averages or scores.tests)}
    return ", ".join(
        f"{split} {scores.metric} {_formatted(values.get(scores.metric))}" for split, values in splits.items()
    )


def pause_line(folder: RunFolder) -> str:
    """Return where a run is paused and its score there, as text."""
    try:
        progress = read_progress(folder)
    except RunError as error:
        return str(error)
    if progress is None:
        return "paused"
    return f"paused at {progress}, dev {progress.metric} {_formatted(progress.score)}"


def _formatted(score: float | None) -> str:
    return "none" if score is None else f"{score:.4f}"
