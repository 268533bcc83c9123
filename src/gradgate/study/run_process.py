"""One run of a study in a process of its own, so that a crash is its own and its memory can be measured."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Literal

from gradgate.errors import FolderLockedError, GradgateError, RunError
from gradgate.files import read_json, write_json
from gradgate.training.config import RunConfig
from gradgate.training.interrupt import InterruptedRunError
from gradgate.training.progress import RunProgress
from gradgate.training.run import train
from gradgate.training.run_folder import RunFolder


class Reporter:
    """Sends a run's progress to the process that started it, as long as that lives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.step: int | None = None

    def begin(self, total: int, done: int) -> None:
        self._send("begin", total, done)

    def advance(self, step: int, loss: float | None) -> None:
        self.step = step
        self._send("advance", step, loss)

    def scored(self, split: str, metric: str, score: float) -> None:
        self._send("scored", split, metric, score)

    def note(self, text: str) -> None:
        print(text, flush=True)

    def _send(self, *words: Any) -> None:
        with suppress(OSError):
            self._connection.send(words)


def train_and_tell(config: dict[str, Any], folder: str, cache: str, connection: Connection) -> None:
    """Train; what is printed goes to ``run.log``, a failure to ``error.json`` and the exit code.

    Args:
        cache: the folder of the activation cache that the study's runs share.
    """
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches the parent alone, which passes it on once
    path = RunFolder(Path(folder))
    path.path.mkdir(parents=True, exist_ok=True)
    _redirect(path.path.with_name(f"{path.path.name}.log"))
    _end_with_parent()
    reporter = Reporter(connection)
    path.error_file.unlink(missing_ok=True)
    try:
        train(RunConfig(**config), path.path, reporter, cache=Path(cache))
    except InterruptedRunError:
        sys.exit(InterruptedRunError.exit_code)
    except FolderLockedError as error:
        print(error, flush=True)
        sys.exit(LOCKED)
    except Exception as error:
        traceback.print_exc()
        reason = str(error) if isinstance(error, GradgateError) else f"{type(error).__name__}: {error}"
        with suppress(RunError):
            write_json(path.error_file, {"type": type(error).__name__, "message": reason, "step": reporter.step})
        sys.exit(1)


def _end_with_parent() -> None:
    """Ask the training to stop and save when the process that started it is gone."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, daemon=True).start()


def _redirect(log: Path) -> None:
    with log.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


Ending = Literal["finished", "failed", "stopped", "locked"]
LOCKED = 75  # the exit code of a process that found another one training in the folder
# Two threads that ask for the end of one process at once would read its exit code twice; one of them gets 255.
_one_by_one = Lock()


def run_in_process(
    config: dict[str, Any],
    folder: RunFolder,
    cache: Path,
    progress: RunProgress,
    stop: Callable[[], bool],
    kill: Event,
) -> tuple[Ending, str]:
    """Train in a process of its own.

    Args:
        config: the record of a RunConfig.
        folder: where to.
        cache: the folder of the activation cache that the study's runs share.
        progress: hears of each step.
        stop: when it becomes true, the run is asked to save and stop.
        kill: when set, it is killed.

    Returns:
        How it ended, and the reason where it failed.
    """
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return "failed", f"Cannot write {folder.path}: {error.strerror or error}."
    context = _context()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # the fork server keeps those with which it was started
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_enter, args=(config, str(folder.path), str(cache), theirs, visible), daemon=True)
    with _one_by_one:
        process.start()
    theirs.close()
    try:
        _follow(process, ours, progress, stop, kill)
        wait([process.sentinel])
    finally:
        with _one_by_one:
            process.join()
        ours.close()
    if process.exitcode == 0:
        return "finished", ""
    if stop() or kill.is_set():
        return "stopped", ""
    if process.exitcode == LOCKED:
        return "locked", ""
    return "failed", _reason(folder, process.exitcode)


def _enter(config: dict[str, Any], folder: str, cache: str, connection: Connection, visible: str | None) -> None:
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    train_and_tell(config, folder, cache, connection)


def _context() -> Any:
    """A fork server imports torch and transformers once for all runs; Windows starts each process anew."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gradgate.study.run_process"])
    return context


def _follow(process: Any, connection: Connection, progress: RunProgress, stop: Callable[[], bool], kill: Event) -> None:
    """Pass on what the run tells until it ends; pass on a request to stop once."""
    asked = False
    while True:
        if kill.is_set():
            process.kill()
            return
        if not asked and stop():
            asked = True
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        try:
            if connection.poll(0.2):
                word, *values = connection.recv()
                getattr(progress, word)(*values)
        except (EOFError, OSError):
            return


def _reason(folder: RunFolder, code: int) -> str:
    if folder.error_file.is_file():
        return str(read_json(folder.error_file)["message"])
    cause = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    hint = " The machine may have run out of memory: try a smaller --batch-size." if code == -signal.SIGKILL else ""
    log = folder.path.with_name(f"{folder.path.name}.log")
    message = f"The process of this run ended by {cause}.{hint} Its output is in {log}."
    with suppress(RunError):  # a full disk: the store and the caller are still told
        write_json(folder.error_file, {"type": "ProcessDied", "message": message, "step": None})
    return message
