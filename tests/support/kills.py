"""Jobs in processes of their own, killed at random moments and begun again until they have ended.

A job is a function and its arguments, the last of which is the folder that it fills. It runs in a child of a fork
server that has imported gradgate, so that few kills fall on imports, in a session of its own, with one thread.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["gradgate.training.run", "gradgate.training.masked.pretraining", "gradgate.study.compare"]
)
_WAIT = 300.0  # seconds until a job hangs


@dataclass(frozen=True)
class Job:
    """What is done again and again, each time in another folder."""

    work: Callable[..., object]
    words: tuple[Any, ...]

    def start(self, folder: Path) -> BaseProcess:
        process = _CONTEXT.Process(target=_run, args=(self.work, *self.words, folder))
        process.start()
        return process

    def finish(self, folder: Path) -> float:
        """Let it end, and return how long it took in seconds."""
        began = time.monotonic()
        process = self.start(folder)
        process.join(_WAIT)
        assert process.exitcode == 0, f"the job in {folder} ended with {process.exitcode}"
        return time.monotonic() - began


@dataclass
class Tally:
    """What killing has shown.

    Attributes:
        kills: processes or groups of processes that were killed.
        folders: of jobs that ended in the end.
        parts: kills that left other processes of the job alive.
    """

    kills: int
    folders: list[Path]
    parts: int = 0


def killed_at_random(job: Job, out: Path, kills: int, seconds: float, seed: int) -> Tally:
    """Run a job in folder after folder, until it has been killed so often.

    Args:
        job: what is run; each time it is begun again, it resumes.
        out: where its folders are made.
        kills: how often it is killed: half of the times as a whole, else one process of it.
        seconds: how long it takes; the moment is drawn from these, evenly.
        seed: of the moments.
    """
    draw, tally = random.Random(seed), Tally(0, [])
    while tally.kills < kills:
        folder = out / str(len(tally.folders))
        while not _ended(job, folder, draw, seconds, tally):
            if tally.kills >= kills:
                job.finish(folder)
                break
        tally.folders.append(folder)
    return tally


def _ended(job: Job, folder: Path, draw: random.Random, seconds: float, tally: Tally) -> bool:
    """Start the job, and kill it at a random moment; return True if it ended before that."""
    process = job.start(folder)
    if (code := _code(process, draw.uniform(0.0, seconds))) is not None:
        assert code == 0, f"the job in {folder} ended with {code}"
        return True
    tally.kills += 1
    members = _members(process)
    chosen = members if draw.random() < 0.5 else [draw.choice(members)]
    tally.parts += len(chosen) < len(members)
    for member in chosen:
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    code = _code(process, _WAIT)
    assert code is not None, f"the job in {folder} hangs"
    for member in _members(process):  # what was not killed lives on only as long as its job does
        with suppress(psutil.NoSuchProcess):
            psutil.Process(member).wait(_WAIT)
    return code == 0 and len(chosen) < len(members)


def _code(process: BaseProcess, seconds: float) -> int | None:
    """Wait for a process, and return its exit code; None if it still runs."""
    process.join(seconds)
    return process.exitcode


def _members(process: BaseProcess) -> list[int]:
    """Return the processes of a job: those of its session."""
    assert process.pid is not None
    found = []
    for other in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(other) == process.pid:
                found.append(other)
    return found or [process.pid]


def _run(work: Callable[..., object], *words: Any) -> None:
    import torch

    os.setsid()
    torch.set_num_threads(1)
    work(*words)
