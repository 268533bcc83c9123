"""Run every run of a grid that is not finished yet, one after another."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from gradgate.methods import method as read_method
from gradgate.study.grid import Grid, GridRun
from gradgate.study.sweep import read_sweep
from gradgate.tasks.averages import average_label
from gradgate.training import launched
from gradgate.training.config import RunConfig
from gradgate.training.folder import RunFolder, read_json, write_json
from gradgate.training.interrupt import InterruptedRunError, stoppable
from gradgate.training.preview import preview
from gradgate.training.progress import RunProgress


class StudyProgress(Protocol):
    """Hears of each run of a study."""

    def begin_study(self, total: int, finished: int) -> None:
        """``finished`` of ``total`` runs were done before."""

    def begin_run(self, label: str) -> RunProgress:
        """A run starts; what is returned hears of its steps."""

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        """A run has ended, with its score or its error."""

    def note(self, text: str) -> None:
        """Something that a person should read."""


@dataclass(frozen=True)
class Tally:
    """How a comparison ended: counts of runs."""

    finished: int
    failed: int


def compare(
    base: RunConfig,
    methods: list[str],
    seeds: list[int],
    out: Path,
    progress: StudyProgress,
    sweep: str | None = None,
) -> Tally:
    """Run what is missing of methods times seeds; finished runs are skipped, failed ones tried again.

    Args:
        base: the settings that all runs share; its method and seed do not count.
        methods: the first is the one that the report compares the others to.
        seeds: one run of each method for each.
        out: the study folder; methods and seeds that it already holds stay in it.
        progress: hears of each run.
        sweep: a row of methods in one word, as ``"freeze:step=3"``; its reference comes before ``methods``. See
            :mod:`gradgate.study.sweep`.

    Raises:
        GradgateError: before anything runs, if the data, the model or a method cannot work.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the study after saving the current run.
    """
    launched.refuse("gradgate compare")
    swept = read_sweep(sweep) if sweep is not None else None
    grid = Grid.of(out, base, [swept.reference, *methods] if swept else methods, seeds)
    seen = preview(base)
    for text in seen.notes:
        progress.note(text)
    if swept:
        grid = grid.adding(swept.methods(seen.layers, grid.methods))
    for name in grid.methods:
        read_method(name).check(seen.layers)
    grid.write(seen.task, seen.model, seen.versions)
    runs = grid.runs()
    waiting = [run for run in runs if not run.folder.finished]
    progress.begin_study(len(runs), len(runs) - len(waiting))
    with stoppable(progress.note) as stop:
        for run in waiting:
            failure = _run(run, grid.cache, progress.begin_run(run.label), stop)
            if stop.is_set():
                raise InterruptedRunError(f"Stopped; {out} is saved. Run the same command again to go on from there.")
            progress.end_run(run.label, failure or _outcome(run.folder), failure is not None)
    failed = sum(not run.folder.finished for run in runs)
    if not failed:
        shutil.rmtree(grid.cache, ignore_errors=True)
    return Tally(len(runs) - failed, failed)


def _run(run: GridRun, cache: Path, progress: RunProgress, stop: Event) -> str | None:
    """Run one in a process of its own. Returns the reason if it failed."""
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    told = (run.config.record(), str(run.folder.path), str(cache), theirs)
    process = context.Process(target=_enter, args=told, daemon=True)
    process.start()
    theirs.close()
    try:
        _follow(process, ours, progress, stop)
    except KeyboardInterrupt:
        process.kill()
        raise
    finally:
        process.join()
        ours.close()
    if process.exitcode == 0 or stop.is_set():
        return None
    if not run.folder.error_file.is_file():
        _note_death(run.folder, process.exitcode)
    return str(read_json(run.folder.error_file)["message"])


def _enter(config: dict[str, Any], folder: str, cache: str, connection: Connection) -> None:
    from gradgate.study.worker import run_in_process  # the parent has no need of what this imports

    run_in_process(config, folder, cache, connection)


def _context() -> Any:
    """A fork server imports torch and transformers once for all runs; Windows starts each process anew."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gradgate.study.worker"])
    return context


def _follow(process: Any, connection: Connection, progress: RunProgress, stop: Event) -> None:
    """Pass on what the run tells until it ends; pass on a request to stop once."""
    asked = False
    while True:
        if stop.is_set() and not asked:
            asked = True
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        try:
            if connection.poll(0.2):
                word, *values = connection.recv()
                getattr(progress, word)(*values)
        except (EOFError, OSError):
            return


def _note_death(folder: RunFolder, code: int) -> None:
    cause = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    hint = " The machine may have run out of memory: try a smaller --batch-size." if code == -signal.SIGKILL else ""
    log = folder.path.with_name(f"{folder.path.name}.log")
    message = f"The process of this run ended by {cause}.{hint} Its output is in {log}."
    write_json(folder.error_file, {"type": "ProcessDied", "message": message, "step": None})


def _outcome(folder: RunFolder) -> str:
    scores = read_json(folder.scores_file)
    metric = scores["metric"]
    averages = {average_label(name): values for name, values in scores.get("averages", {}).items()}
    splits = {"dev": scores["dev"], **(averages or scores["tests"])}
    return ", ".join(f"{split} {metric} {values[metric]:.4f}" for split, values in splits.items())
