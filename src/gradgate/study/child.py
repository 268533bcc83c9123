"""One run of a study in a process of its own, so that a crash is its own and its memory can be measured."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

from gradgate.errors import FolderLockedError, GradgateError, RunError
from gradgate.study.process import LOCKED
from gradgate.training.config import RunConfig
from gradgate.training.folder import RunFolder, write_json
from gradgate.training.interrupt import InterruptedRunError
from gradgate.training.run import train


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
        cache: the folder of the prefix cache that the study's runs share.
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
