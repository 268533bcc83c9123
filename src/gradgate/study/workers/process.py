"""Train one run of a study in a process of its own: a crash ends that run alone, and its memory can be measured."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from gradgate.errors import FolderLockedError, GradgateError, RunError, UsageError
from gradgate.methods.catalog import registered_modules
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.runs.pauses import read_pauses
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import Failure, read_record, write_record
from gradgate.runs.state import RunState
from gradgate.study.workers.starting import MAIN, main_left_alone, safely_started

_LOCKED = 75  # the exit code of a process that found another one training in the folder
_UNKNOWN = 255  # what multiprocessing gives where the fork server ended before its child
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_STARTS = 3  # tries to start a process: the fork server may be killed at that moment, and is then started again
# Two threads that ask for the end of one process at once would read its exit code twice; one of them gets 255.
_one_by_one = Lock()


def run_in_process(
    config: dict[str, Any],
    folder: RunFolder,
    cache: Path,
    progress: RunProgress,
    stop: Callable[[], bool],
    kill: Event,
    until: int | None = None,
    slot: int = 0,
) -> tuple[RunState, str]:
    """Train in a process of its own.

    Args:
        config: the record of a RunConfig.
        folder: of the run.
        cache: the folder of the activation cache that the study's runs share.
        progress: is called for each step.
        stop: when it returns true, the run is asked to save and stop.
        kill: when set, the process is killed.
        until: the optimizer step at which the run is paused; None trains it to its end.
        slot: its number among the runs that train here at once; each takes one of the GPUs, in turn.

    Returns:
        The state of the run, and why it failed. It is ``waiting`` if it was stopped, or another process trains it.
    """
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return RunState.FAILED, f"Cannot write {folder.path}: {error.strerror or error}."
    try:
        process, connection = _start(config, folder, cache, until, slot)
    except (EOFError, OSError) as error:
        said = str(error) or "the server that starts processes was killed"
        return RunState.FAILED, _note_failure(folder, f"The process of this run could not be started: {said}.")
    try:
        _follow(process, connection, progress, stop, kill)
        wait([process.sentinel])
    finally:
        with _one_by_one:
            process.join()
        connection.close()
    return _ending(folder, process.exitcode, stop() or kill.is_set(), until)


def visible_to(slot: int) -> str | None:
    """Return the GPU that a slot's runs see, as ``CUDA_VISIBLE_DEVICES``; None leaves what there is."""
    import torch

    visible = os.environ.get(_VISIBLE)
    there = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return there[slot % len(there)] if len(there) > 1 else visible


def _start(
    config: dict[str, Any], folder: RunFolder, cache: Path, until: int | None, slot: int
) -> tuple[Any, Connection]:
    """Start the process that trains; return it with the connection that it reports through."""
    context = _context()
    visible = visible_to(slot)  # the fork server keeps those with which it was started
    ours, theirs = context.Pipe(duplex=False)
    modules = registered_modules()
    arguments = (config, str(folder.path), str(cache), theirs, visible, until, modules)
    process = context.Process(target=train_in_child, args=arguments, daemon=True)
    for left in reversed(range(_STARTS)):
        try:
            with _one_by_one, safely_started(modules), main_left_alone(modules):
                process.start()
            break
        except (EOFError, ConnectionError):
            if not left:
                raise
    theirs.close()
    return process, ours


def refuse_unseen_methods() -> None:
    """Refuse methods that the processes of runs could not train, and scripts that they would run again.

    Raises:
        UsageError: in a process of a run that imports the user's script, and for methods that a notebook defines.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            "This script registers a method and compares at its top level, so each run, which imports the script "
            "for the method, would start the comparison again. Put the script's code under: if __name__ == "
            "'__main__':"
        )
    if MAIN in registered_modules() and getattr(sys.modules[MAIN], "__file__", None) is None:
        raise UsageError(
            "A registered method is defined in a notebook or prompt, but each run of a study trains in its own "
            "process, which cannot see it. Put the class and gradgate.register into a file, such as "
            "my_methods.py, and import that. gradgate.train takes the method as it is."
        )


def _context() -> Any:
    """Return a fork server, which imports what all runs need once; on Windows each process starts over."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gradgate.study.workers.process", "gradgate.study.workers.preload"])
    return context


def _follow(process: Any, connection: Connection, progress: RunProgress, stop: Callable[[], bool], kill: Event) -> None:
    """Pass on what the run reports until it ends; pass on a request to stop once."""
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


def _ending(folder: RunFolder, code: int, stopped: bool, until: int | None) -> tuple[RunState, str]:
    if code in (0, _UNKNOWN) and folder.finished:
        return RunState.FINISHED, ""
    if code == 0 or (code == _UNKNOWN and _has_reached(folder, until)):
        return RunState.PAUSED if until is not None else RunState.FINISHED, ""
    if stopped or code == _LOCKED:
        return RunState.WAITING, ""
    if folder.error_file.is_file():
        return RunState.FAILED, _reason(folder)
    cause = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    hint = " The machine may have run out of memory: try a smaller batch_size=." if code == -signal.SIGKILL else ""
    log = folder.path.with_name(f"{folder.path.name}.log")
    message = f"The process of this run ended by {cause}.{hint} Its output is in {log}."
    return RunState.FAILED, _note_failure(folder, message)


def _has_reached(folder: RunFolder, until: int | None) -> bool:
    """Return whether a run is paused at its step."""
    try:
        pauses = read_pauses(folder)
    except RunError:
        return False
    return until is not None and pauses is not None and pauses.step >= until


def _reason(folder: RunFolder) -> str:
    """Return the reason in ``error.json``."""
    try:
        return read_record(folder.error_file, Failure).message
    except (RunError, KeyError) as error:
        return f"{folder.error_file} is damaged: {error}"


def _note_failure(folder: RunFolder, message: str) -> str:
    with suppress(RunError):  # a full disk: the store and the caller still get the message
        write_record(folder.error_file, Failure("ProcessDied", message))
    return message


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


def train_in_child(
    config: dict[str, Any],
    folder: str,
    cache: str,
    connection: Connection,
    gpus: str | None,
    until: int | None,
    modules: Sequence[str] = (),
) -> None:
    """Train; output goes to the run's log, a failure to ``error.json`` and the exit code.

    Args:
        config: the record of a RunConfig.
        folder: of the run.
        cache: the folder of the activation cache that the study's runs share.
        connection: to the process that started this one.
        gpus: ``CUDA_VISIBLE_DEVICES`` of that process; None where it is not set.
        until: the optimizer step at which the run is paused; None trains it to its end.
        modules: that register methods of the user's own.
    """
    gc.freeze()  # what the fork server has imported is not garbage; scanning it takes longer than small runs
    if gpus is not None:
        os.environ[_VISIBLE] = gpus
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches the parent alone, which passes it on once
    run = RunFolder(Path(folder))
    run.path.mkdir(parents=True, exist_ok=True)
    _redirect(run.path.with_name(f"{run.path.name}.log"))
    _end_with_parent()
    reporter = Reporter(connection)
    run.error_file.unlink(missing_ok=True)
    for name in modules:
        with suppress(ImportError):  # if its methods are asked for, that they are unknown is said then
            import_module(name)
    try:
        _train(config, run, reporter, Path(cache), until)
    except InterruptedRunError:
        sys.exit(InterruptedRunError.exit_code)
    except FolderLockedError as error:
        print(error, flush=True)
        sys.exit(_LOCKED)
    except Exception as error:
        _record_failure(error, run, reporter.step)
        sys.exit(1)


def _record_failure(error: Exception, run: RunFolder, step: int | None) -> None:
    """Print an error to the run's log, and write it to ``error.json``."""
    traceback.print_exc()
    reason = str(error) if isinstance(error, GradgateError) else f"{type(error).__name__}: {error}"
    with suppress(RunError):
        write_record(run.error_file, Failure(type(error).__name__, reason, step))


def _train(config: dict[str, Any], folder: RunFolder, reporter: Reporter, cache: Path, until: int | None) -> None:
    # torch and transformers are for the child alone: the process that follows it does without them.
    from gradgate.settings.run import RunConfig
    from gradgate.training.run import train

    train(RunConfig(**config), folder.path, reporter, cache=cache, until=until)


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
