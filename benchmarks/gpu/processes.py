"""Start a process per part, and end it at its limit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from benchmarks.gpu.worker import Event, Send, Task, serve

Ended = Literal["itself", "limit"] | str
_PRELOADED = ("torch", "transformers", "numba", "gradgate.memory.request", "gradgate.tuner", "gradgate.api.train")
# Without it, asking whether there is a GPU starts CUDA, which a forked process cannot use.
_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


class Processes:
    """Starts processes that have torch imported already: forked from one that imported it and never touched a GPU.

    Args:
        way: ``forkserver``, or ``spawn`` to import everything in each process.
    """

    def __init__(self, way: Literal["forkserver", "spawn"] = "forkserver") -> None:
        os.environ.setdefault(_NVML, "1")
        self.way = way
        self._context: Any = multiprocessing.get_context(way)
        if way == "forkserver":
            self._context.set_forkserver_preload(list(_PRELOADED))

    def call(self, function: Callable[[], Any], limit: float) -> Any:
        """Return what a function returns in a process of its own; None if it fails or takes longer than the limit."""
        mine, other = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_answer, args=(function, other), daemon=True)
        process.start()
        other.close()
        answer = None
        with suppress(EOFError):
            answer = mine.recv() if mine.poll(limit) else None
        _kill(process)
        return answer

    def run(self, task: Task, limit: float, send: Send) -> str:
        """Run a part for at most ``limit`` seconds, and pass its events on.

        Returns:
            Why it ended: empty if by itself, else a text such as ``the time limit of 30 s``.
        """
        mine, other = self._context.Pipe(duplex=False)
        process = self._context.Process(target=serve, args=(task, other))
        process.start()
        other.close()
        until, why = time.monotonic() + limit, ""
        try:
            while mine.poll(max(0.0, until - time.monotonic())):
                send(Event(*mine.recv()))
            why = f"the time limit of {limit:.0f} s"
        except EOFError:  # it closed its end, or died
            process.join(10)
            why = _death(process)
        finally:
            _kill(process)
            mine.close()
        return why


def _answer(function: Callable[[], Any], pipe: Any) -> None:
    pipe.send(function())


def _death(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None or code == 0:
        return ""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _kill(process: BaseProcess) -> None:
    """End a process with all that it started, such as a compiler's workers."""
    if process.pid is not None and process.is_alive():
        with suppress(ProcessLookupError, PermissionError):
            # Before it has a group of its own, its group is that of its parent.
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.join()
