"""A process for one run of a study: started, followed, and told to stop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal

from gradgate.errors import RunError
from gradgate.training.folder import RunFolder, read_json, write_json
from gradgate.training.progress import RunProgress

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
        cache: the folder of the prefix cache that the study's runs share.
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
    from gradgate.study.child import train_and_tell  # the parent has no need of what this imports

    train_and_tell(config, folder, cache, connection)


def _context() -> Any:
    """A fork server imports torch and transformers once for all runs; Windows starts each process anew."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gradgate.study.child"])
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
