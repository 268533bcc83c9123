"""Run every run of a grid that is not finished yet."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from gradgate.distributed import launch
from gradgate.runs.folder import CACHE_FOLDER
from gradgate.runs.interrupt import InterruptedRunError, stoppable
from gradgate.runs.state import RunState
from gradgate.study import search as searches
from gradgate.study.budget.driver import BudgetDriver, BudgetedStudy, Deadline
from gradgate.study.budget.file import read_budget
from gradgate.study.conditions import condition_folders
from gradgate.study.grid import Grid, GridRun
from gradgate.study.planning import Execution, StudyLayout, StudyRequest, plan
from gradgate.study.progress import StudyProgress
from gradgate.study.results import read_study
from gradgate.study.study_file import find_study, locked_folder
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.ray import run_on_ray
from gradgate.study.workers.store import open_store, set_aside
from gradgate.study.workers.store_errors import DamagedStoreError
from gradgate.study.workers.worker import Workers


@dataclass(frozen=True)
class RunCounts:
    """The outcome of a comparison, as numbers of runs."""

    finished: int
    failed: int
    paused: int = 0


def compare(
    comparison: StudyRequest,
    out: Path,
    progress: StudyProgress,
    execution: Execution | None = None,
    deadline: Deadline | None = None,
) -> RunCounts:
    """Run what is missing of a study; finished runs are skipped, failed ones tried again.

    Other processes and machines may work on the same study at the same time.

    Args:
        comparison: what is compared.
        out: the study folder; methods and seeds that it already holds stay in it.
        progress: is called for each run.
        execution: where and how to train; by default one run after another, here.
        deadline: ends a budget by the clock.

    Raises:
        GradgateError: before anything runs, if the data, the model or a method cannot work.
        StoreError: if the queue cannot be kept; runs under way are saved first.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the study after saving the current runs.
    """
    launch.refuse("gradgate compare")
    execution = execution or Execution()
    study = plan(comparison, out, progress, execution)
    if study.folders[0] != out:
        study.conditions.write(out)
    queue = _begin(out, study, execution, progress, adds_runs=comparison.budget is None)
    try:
        _run(queue, out, comparison, study.folders, execution, progress, deadline)
    finally:
        queue.store.close()
    counts = count_runs(out)
    if not counts.failed and (not counts.paused or comparison.budget is not None):
        shutil.rmtree(out / CACHE_FOLDER, ignore_errors=True)
    return counts


def _begin(out: Path, study: StudyLayout, execution: Execution, progress: StudyProgress, *, adds_runs: bool) -> Queue:
    """Write the files of the study, and queue what is missing if all of it is to be trained."""
    grids, searches_more = _written(study)
    better = study.planned[0].higher_is_better
    runs = searches.all_runs(grids) if adds_runs else []
    try:
        queue = _filled_queue(out, runs, execution, better)
    except DamagedStoreError as error:
        aside = set_aside(out)
        progress.note(
            f"{error} The damaged file is kept as {aside.name}, and the queue is rebuilt from the run folders."
        )
        queue = _filled_queue(out, runs, execution, better)
    if any(map(searches.undecided, grids)):
        queue.hold_back(runs)  # runs at the choice of a shorter search
    if searches_more:
        progress.note(
            "The search tries more than before. An arm whose best setting changes is trained again; its earlier runs "
            f"are kept in {searches.SUPERSEDED}/."
        )
    return queue


def _written(study: StudyLayout) -> tuple[list[Grid], bool]:
    """Write the files of the study. Return its grids, and whether its search tries more than before."""
    grids, searches_more = [], False
    for part in study.planned:
        with locked_folder(part.grid.path):
            seen, before = part.seen, find_study(part.grid.path)
            grid = part.grid.write(seen.task, seen.model, seen.versions, seen.language_adapters)
        if before is not None and before.search is not None and grid.search is not None:
            searches_more |= not before.search.covers(grid.search)
        grids.append(grid)
    return grids, searches_more


def _filled_queue(out: Path, runs: list[GridRun], execution: Execution, higher_is_better: bool) -> Queue:
    """Return the queue of a study after adding these runs."""
    opened = open_store(out, execution.queue, heartbeat=execution.heartbeat, higher_is_better=higher_is_better)
    try:
        queue = Queue(opened)
        queue.add(runs)
    except BaseException:
        opened.close()
        raise
    return queue


def _run(
    queue: Queue,
    out: Path,
    comparison: StudyRequest,
    folders: list[Path],
    execution: Execution,
    progress: StudyProgress,
    deadline: Deadline | None,
) -> None:
    """Train what waits, or what a budget asks for.

    Raises:
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the study.
    """
    runs, cache, trust_remote_code = queue.runs(), out / CACHE_FOLDER, comparison.base.trust_remote_code
    progress.begin_study(len(runs), sum(run.state is RunState.FINISHED for run in runs))
    kept, asked = queue.store.heartbeat, execution.heartbeat
    if asked is not None and asked != kept:
        progress.note(
            f"grace={asked.grace}: this study keeps the {kept.grace} seconds that it began with, as its workers must "
            f"agree."
        )
    with stoppable(progress.note) as stop:

        def train() -> None:
            if execution.ray is not None:
                run_on_ray(execution.ray, queue, execution.queue, cache, progress, stop, trust_remote_code)
            else:
                workers = Workers(queue, cache, progress, stop, trust_remote_code=trust_remote_code)
                workers.work(execution.workers)
            if stop.is_set():
                raise InterruptedRunError(f"Stopped; {out} is saved. Run the same command again to resume.")

        if comparison.budget is None:
            train()
        else:
            BudgetDriver(BudgetedStudy.read(out, folders), queue, train, deadline).run(comparison.budget)


def count_runs(out: Path) -> RunCounts:
    """Count the runs of a study by state; a run with damaged scores counts as failed.

    With a budget, runs that it did not begin have not failed.
    """
    cells = [cell for path in condition_folders(out) for cell in read_study(path).cells]
    finished = sum(cell.state is RunState.FINISHED for cell in cells)
    paused = sum(cell.state is RunState.PAUSED for cell in cells)
    is_budgeted = read_budget(out) is not None
    failed = sum(cell.state is RunState.FAILED for cell in cells) if is_budgeted else len(cells) - finished - paused
    return RunCounts(finished, failed, paused)
