"""Run tests in every process of a gloo group.

The processes of a group start with its first test and serve later ones, because importing torch takes longer than most
tests do. They are forked from one process that has imported it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache, wraps
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

Test = Callable[..., None]

_IMPORTED = [
    "gradgate.auditing.report",
    "gradgate.auditing.watch",
    "gradgate.training.run",
    "pytest",
    "torch.distributed.fsdp",
    "transformers.models.bert.modeling_bert",
]
_AFTER_A_FAILURE = 5.0  # seconds for the other processes, which may wait for the one that failed
_groups: dict[int, _Group] = {}
_tests: dict[tuple[str, str], Test] = {}


def in_processes(test: Test) -> Test:
    """Run a test in two processes at once, or in as many as its argument ``processes`` says; fail if one fails.

    The test's arguments must be plain values, because they are pickled.
    """
    key = test.__code__.co_filename, test.__name__
    _tests[key] = test

    @wraps(test)
    def run(**arguments: Any) -> None:
        failures = _call(arguments.get("processes", 2), key, arguments)
        assert not failures, "\n".join(f"in process {rank}:\n{text}" for rank, text in failures.items())

    return run


def close_groups() -> None:
    """End the processes of all groups."""
    while _groups:
        _groups.popitem()[1].close()


class _Group:
    """Processes that wait for tests, each with a pipe to this one."""

    def __init__(self, count: int) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        self._folder = tempfile.TemporaryDirectory()
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(count):
            mine, theirs = context.Pipe()
            words = (theirs, rank, count, f"file://{self._folder.name}/meeting")
            process = context.Process(target=_serve, args=words, daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def run(self, key: tuple[str, str], arguments: dict[str, Any]) -> dict[int, str]:
        """Run a test in all processes; return the tracebacks by rank."""
        for pipe in self.pipes:
            with suppress(BrokenPipeError):  # its end is seen below
                pipe.send((key, arguments))
        failures: dict[int, str] = {}
        waiting = dict(enumerate(self.pipes))
        while waiting and (ready := wait(waiting.values(), timeout=_AFTER_A_FAILURE if failures else None)):
            for rank in [rank for rank, pipe in waiting.items() if pipe in ready]:
                failure = self._answer(waiting.pop(rank), rank)
                if failure is not None:
                    failures[rank] = failure
        return failures

    def _answer(self, pipe: Connection, rank: int) -> str | None:
        """Return the traceback of a test in one process, or None if it passed."""
        try:
            failure: str | None = pipe.recv()
        except (EOFError, ConnectionResetError):
            self.processes[rank].join()
            failure = f"ended with exit code {self.processes[rank].exitcode}"
        return failure

    @property
    def crashed(self) -> bool:
        """True if a process died by a segmentation fault."""
        return any(process.exitcode == -signal.SIGSEGV for process in self.processes)

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            process.kill()  # nothing to lose, and faster than an interpreter's end
            process.join()
            pipe.close()
        self._folder.cleanup()


def _call(count: int, key: tuple[str, str], arguments: dict[str, Any]) -> dict[int, str]:
    """Run a test in a group; after a failure, end the group, whose processes may be at different calls.

    Gloo's thread has crashed once in many runs (torch 2.13, a segmentation fault in ``pt_gloo_runloop``), so a test
    whose process dies by one runs again; a crash of our own would come again, too.
    """
    for last in (False, True):
        group = _groups.get(count) or _groups.setdefault(count, _Group(count))
        failures = group.run(key, arguments)
        if not failures:
            break
        _groups.pop(count).close()
        if last or not group.crashed:
            break
    return failures


def _serve(pipe: Connection, rank: int, count: int, meeting: str) -> None:
    """Run tests that the pipe names; answer each with a traceback or None."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count, timeout=timedelta(seconds=60))
    while True:
        key, arguments = pipe.recv()
        torch.manual_seed(0)
        try:
            _import(key[0])
            _tests[key](**arguments)
        except BaseException:
            pipe.send(traceback.format_exc())
        else:
            pipe.send(None)


@cache
def _import(file: str) -> None:
    spec = spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
