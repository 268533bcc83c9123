"""Run a training in a process of its own; a call that is cancelled, or whose agent has gone, stops it after saving."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from gradgate.errors import RunError
from gradgate.runs.state import RunState

_SECONDS_BETWEEN_LOOKS = 5.0
_SECONDS_TO_DRAIN = 20.0
_RUNS_FAILED = 1  # the exit code of a study that ended with failed runs
_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.PRUNED)


@dataclass(frozen=True)
class RunsDone:
    """The progress of a study.

    Attributes:
        done: runs that have ended, with the share of its steps for each one under way.
        ended: runs that have ended.
        runs: of the study so far.
    """

    done: float
    ended: int
    runs: int


Report = Callable[[RunsDone], Awaitable[None]]

_running: set[Process] = set()


async def run_command(words: Sequence[str], study: Path, report: Report) -> str:
    """Run a command that trains a study, and return what it prints; its messages go to standard error at once.

    Args:
        words: of the command line.
        study: its folder.
        report: is called when the study is further than it was, every few seconds at most.

    Raises:
        RunError: if the command fails, with its message. A study with failed runs has a result all the same.
    """
    # Clients end a server by signals to its group, a few seconds apart. A training saves first, so it is in no group of
    # theirs.
    process = await anyio.open_process(words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True)
    _running.add(process)
    printed: list[str] = []
    said: list[str] = []
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report_runs, study, report)
            async with anyio.create_task_group() as reading:
                reading.start_soon(_read, process.stdout, printed.append)
                reading.start_soon(_read, process.stderr, _heard(said))
            await process.wait()
            tasks.cancel_scope.cancel()
    finally:
        await _stop(process)
        _running.discard(process)
    result = "".join(printed)
    if process.returncode and not (process.returncode == _RUNS_FAILED and result.strip()):
        reason = "".join(said).strip().rpartition("gradgate: ")[2] or f"it ended with code {process.returncode}."
        raise RunError(reason)
    return result


async def stop_on_signal() -> None:
    """Let SIGTERM end the trainings, once they are saved, before it ends this process."""
    with anyio.open_signal_receiver(signal.SIGTERM) as received:
        async for _ in received:
            break
        for process in list(_running):
            await _end(process)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


async def _read(stream: object, take: Callable[[str], object]) -> None:
    async for text in TextReceiveStream(stream, errors="replace"):  # type: ignore[arg-type]
        take(text)


def _heard(said: list[str]) -> Callable[[str], None]:
    def take(text: str) -> None:
        said.append(text)
        sys.stderr.write(text)
        sys.stderr.flush()

    return take


async def _end(process: Process) -> None:
    """Ask a process that still runs to save and stop, and wait until it has."""
    if process.returncode is None:
        process.terminate()
        await process.wait()


async def _stop(process: Process) -> None:
    """End a process whatever is cancelled, and close its pipes."""
    with anyio.CancelScope(shield=True):
        await _end(process)
        for stream in filter(None, (process.stdout, process.stderr)):
            with anyio.move_on_after(_SECONDS_TO_DRAIN):  # an end that was read closes the pipe
                async for _ in stream:
                    pass
            await stream.aclose()


async def _report_runs(study: Path, report: Report) -> None:
    before = -1.0
    while True:
        await anyio.sleep(_SECONDS_BETWEEN_LOOKS)
        runs = await anyio.to_thread.run_sync(runs_done, study)
        if runs is not None and runs.done > before:  # the protocol wants each value above the one before
            before = runs.done
            await report(runs)


def runs_done(study: Path) -> RunsDone | None:
    """Return how far a study is; None if its runs cannot be read, as before it begins."""
    from gradgate.study.status import read_status

    try:
        status = read_status(study)
    except Exception:  # a training does not end because it cannot be looked at
        return None
    ended = sum(run.state in _ENDED for run in status.runs)
    places = [run.place for run in status.runs if run.place is not None]
    under_way = sum(place["step"] / place["total"] for place in places if place["total"])
    return RunsDone(ended + under_way, ended, len(status.runs))
