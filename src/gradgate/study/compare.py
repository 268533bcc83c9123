"""Run every run of a grid that is not finished yet."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gradgate.methods import method as read_method
from gradgate.study import search as searches
from gradgate.study.grid import Grid, held_settings
from gradgate.study.progress import StudyProgress
from gradgate.study.queue import Queue
from gradgate.study.ray_cluster import RayCluster, run_on_ray
from gradgate.study.search import Space
from gradgate.study.store import DamagedStoreError, Heartbeat, Store, alone_in, open_store, set_aside
from gradgate.study.sweep import read_sweep
from gradgate.study.workers import Workers
from gradgate.training import launched
from gradgate.training.config import RunConfig
from gradgate.training.interrupt import InterruptedRunError, stoppable
from gradgate.training.preview import Preview, preview


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
    adapters: Sequence[str | None] = (),
    *,
    search: Space | None = None,
    workers: int = 1,
    ray: RayCluster | None = None,
    store: str | None = None,
    heartbeat: Heartbeat | None = None,
) -> Tally:
    """Run what is missing of adapters times methods times seeds; finished runs are skipped, failed ones tried again.

    Other processes and machines may work on the same study at the same time.

    Args:
        base: the settings that all runs share; its method, adapter and seed do not count. Without ``threads``, each
            run takes its worker's part of the CPU cores, or what the study was begun with.
        methods: the first is the one that the report compares the others to.
        seeds: one run of each method for each.
        out: the study folder; methods and seeds that it already holds stay in it.
        progress: hears of each run.
        sweep: a row of methods in one word, as ``"freeze:step=3"``; its reference comes before ``methods``. See
            :mod:`gradgate.study.sweep`.
        adapters: texts as in :class:`RunConfig`; None or ``none`` is the model itself, as is an empty sequence in a
            new study. The first method with the first adapter is the reference.
        search: settings to try first for each method; its best on dev is what its runs take. A study that was begun
            with one goes on with it.
        workers: runs that are trained at the same time.
        ray: a cluster to train on, instead of ``workers`` here.
        store: the address of a database server that keeps the queue; see :func:`gradgate.study.store.open_store`.
        heartbeat: of a study that is begun.

    Raises:
        GradgateError: before anything runs, if the data, the model or a method cannot work.
        StoreError: if the queue cannot be kept; what runs is saved first.
        InterruptedRunError: when Ctrl-C or SIGTERM stopped the study after saving the current runs.
    """
    launched.refuse("gradgate compare")
    swept = read_sweep(sweep) if sweep is not None else None
    cores = ray.cpus_per_run if ray is not None else max(1, torch.get_num_threads() // workers)
    base = _with_threads(base, out, cores)
    grid = Grid.of(out, base, [swept.reference, *methods] if swept else methods, seeds, adapters)
    seen = preview(base, [text for text in grid.adapters if text is not None])
    for text in seen.notes:
        progress.note(text)
    if swept:
        grid = grid.adding(swept.methods(seen.layers, grid.methods))
    for name in grid.methods:
        read_method(name).check(seen.layers)
    if search is not None:
        grid = grid.searching(search.record())
    searches.check(grid)
    grid, opened = _begin(grid, seen, store, heartbeat, progress)
    folders = [grid.folder_of(arm, seed) for seed in grid.seeds for arm in grid.arms]
    before = Queue(opened).runs()
    progress.begin_study(len(before), sum(run.state == "finished" for run in before))
    try:
        with stoppable(progress.note) as stop:
            if ray is not None:
                run_on_ray(ray, Queue(opened), store, grid.cache, progress, stop)
            else:
                Workers(Queue(opened), grid.cache, progress, stop).work(workers)
            if stop.is_set():
                raise InterruptedRunError(f"Stopped; {out} is saved. Run the same command again to go on from there.")
    finally:
        opened.close()
    failed = sum(not folder.finished for folder in folders)
    if not failed:
        shutil.rmtree(grid.cache, ignore_errors=True)
    return Tally(len(folders) - failed, failed)


def _begin(
    grid: Grid, seen: Preview, url: str | None, heartbeat: Heartbeat | None, progress: StudyProgress
) -> tuple[Grid, Store]:
    """Write the study's file, and queue what is missing."""
    with alone_in(grid.path):
        grid = grid.write(seen.task, seen.model, seen.versions)
    better = bool(seen.task["metric_higher_is_better"])
    try:
        opened = open_store(grid.path, url, heartbeat=heartbeat, higher_is_better=better)
    except DamagedStoreError as error:
        aside = set_aside(grid.path)
        progress.note(
            f"{error} The damaged file is kept as {aside.name}, and the queue is built anew from the run folders."
        )
        opened = open_store(grid.path, url, heartbeat=heartbeat, higher_is_better=better)
    Queue(opened).add([*searches.search_runs(grid, searches.undecided(grid)), *grid.runs()])
    return grid, opened


def _with_threads(base: RunConfig, out: Path, cores: int) -> RunConfig:
    """Sums on the CPU depend on the number of threads: all runs of a study take as many, however many workers."""
    if base.threads is not None:
        return base
    held = held_settings(out)
    return base.model_copy(update={"threads": cores if held is None else held.get("threads")})
