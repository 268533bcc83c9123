"""Run every run of a grid that is not finished yet."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch

from gradgate.distributed import launch
from gradgate.errors import UsageError
from gradgate.methods import method as read_method
from gradgate.study import search as searches
from gradgate.study.grid import Grid, held_settings
from gradgate.study.parts import Axes, Part
from gradgate.study.progress import StudyProgress
from gradgate.study.queue import Queue
from gradgate.study.ray import RayCluster, run_on_ray
from gradgate.study.results import read_study
from gradgate.study.search import Space
from gradgate.study.store import DamagedStoreError, Heartbeat, Store, locked_folder, open_store, set_aside
from gradgate.study.study_file import STUDY_FILE, SearchRecord
from gradgate.study.sweep import FreezeSweep, read_sweep
from gradgate.study.worker import Workers
from gradgate.training.config import RunConfig
from gradgate.training.interrupt import InterruptedRunError, stoppable
from gradgate.training.preview import Preview, preview
from gradgate.training.run_folder import CACHE_FOLDER


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
    axes: Axes | None = None,
    search: Space | None = None,
    workers: int = 1,
    ray: RayCluster | None = None,
    store: str | None = None,
    heartbeat: Heartbeat | None = None,
) -> Tally:
    """Run what is missing of a study; finished runs are skipped, failed ones tried again.

    A study is tasks times models times adapters times methods times seeds.

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
        axes: several tasks and models, each task with each model, in place of the base's; in a study that has others
            they are added to these. See :mod:`gradgate.study.parts` for where their runs are.
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
    launch.refuse("gradgate compare")
    swept = read_sweep(sweep) if sweep is not None else None
    axes = (axes or Axes.of(base)).with_held(out)
    cores = ray.cpus_per_run if ray is not None else max(1, torch.get_num_threads() // workers)
    parts = _with_threads(axes.parts(out, base), cores)
    names = [swept.reference, *methods] if swept else methods
    asked = _Asked(names, seeds, adapters, swept, search).with_held([part.path for part in parts])
    planned = [_plan(part, asked, progress) for part in parts]
    _check_together(planned)
    if parts[0].path != out:
        axes.write(out)
    grids, opened = _begin(out, planned, store, heartbeat, progress)
    cache = out / CACHE_FOLDER
    before = Queue(opened).runs()
    progress.begin_study(len(before), sum(run.state == "finished" for run in before))
    try:
        with stoppable(progress.note) as stop:
            if ray is not None:
                run_on_ray(ray, Queue(opened), store, cache, progress, stop, base.trust_remote_code)
            else:
                trusted = base.trust_remote_code
                Workers(Queue(opened), cache, progress, stop, trust_remote_code=trusted).work(workers)
            if stop.is_set():
                raise InterruptedRunError(f"Stopped; {out} is saved. Run the same command again to go on from there.")
    finally:
        opened.close()
    tally = _tally(grids)
    if not tally.failed:
        shutil.rmtree(cache, ignore_errors=True)
    return tally


def _tally(grids: list[Grid]) -> Tally:
    """What a reader of the study sees: a run with damaged scores has failed as well."""
    cells = [cell for grid in grids for cell in read_study(grid.path).cells]
    finished = sum(cell.status == "finished" for cell in cells)
    return Tally(finished, len(cells) - finished)


@dataclass(frozen=True)
class _Asked:
    """What is compared on every part of a study."""

    methods: list[str]
    seeds: list[int]
    adapters: Sequence[str | None]
    sweep: FreezeSweep | None
    search: Space | None
    held_search: SearchRecord | None = None

    def with_held(self, paths: list[Path]) -> _Asked:
        """With what the study already compares, which a new part of it has to compare as well."""
        held = [Grid.read(path) for path in paths if (path / STUDY_FILE).is_file()]
        if not held:
            return self
        return replace(
            self,
            methods=[*chain(*(grid.methods for grid in held)), *self.methods] if self.methods else [],
            seeds=[*chain(*(grid.seeds for grid in held)), *self.seeds],
            adapters=[*chain(*(grid.adapters for grid in held)), *self.adapters],
            held_search=held[0].search,
        )

    @property
    def space(self) -> SearchRecord | None:
        """What is searched."""
        return self.search.record() if self.search is not None else self.held_search


@dataclass(frozen=True)
class _Planned:
    grid: Grid
    seen: Preview


def _plan(part: Part, asked: _Asked, progress: StudyProgress) -> _Planned:
    """The grid of one part, checked against its data and its model."""
    swept = asked.sweep
    grid = Grid.of(part.path, part.base, asked.methods, asked.seeds, asked.adapters, part.name)
    seen = preview(part.base, [text for text in grid.adapters if text is not None])
    grid.check_data(seen.task)
    for text in seen.notes:
        progress.note(grid.labelled(text))
    if swept:
        grid = grid.adding(swept.methods(seen.layers, grid.methods))
    for name in grid.methods:
        read_method(name).check(seen.layers)
    if asked.space is not None:
        grid = grid.searching(asked.space)
    searches.check(grid)
    return _Planned(grid, seen)


def _check_together(planned: list[_Planned]) -> None:
    """UsageError if the parts of a study cannot share one queue or one table."""
    metrics = {bool(part.seen.task.metric_higher_is_better): part.seen.task for part in planned}
    if len(metrics) > 1:
        better = " and ".join(
            f"{task.metric} of {task.name} where it is {'higher' if higher else 'lower'}"
            for higher, task in metrics.items()
        )
        raise UsageError(f"These tasks cannot be in one study: {better} is better. Compare on them in two studies.")
    first = planned[0].grid
    for other in planned[1:]:
        if set(other.grid.methods) != set(first.methods):
            raise UsageError(
                f"--sweep gives other methods for {other.grid.base.model} than for {first.base.model}, which has "
                f"another number of layers. Sweep them in studies of their own, or name the methods."
            )


def _begin(
    out: Path, planned: list[_Planned], url: str | None, heartbeat: Heartbeat | None, progress: StudyProgress
) -> tuple[list[Grid], Store]:
    """Write the files of the study, and queue what is missing."""
    grids = []
    for part in planned:
        with locked_folder(part.grid.path):
            grids.append(part.grid.write(part.seen.task, part.seen.model, part.seen.versions))
    better = bool(planned[0].seen.task.metric_higher_is_better)

    def open_and_fill() -> Store:
        opened = open_store(out, url, heartbeat=heartbeat, higher_is_better=better)
        try:
            Queue(opened).add(searches.all_runs(grids))
        except BaseException:
            opened.close()
            raise
        return opened

    try:
        return grids, open_and_fill()
    except DamagedStoreError as error:
        aside = set_aside(out)
        progress.note(
            f"{error} The damaged file is kept as {aside.name}, and the queue is built anew from the run folders."
        )
        return grids, open_and_fill()


def _with_threads(parts: list[Part], cores: int) -> list[Part]:
    """Sums on the CPU depend on the number of threads: all runs of a study take as many, however many workers."""
    if parts[0].base.threads is not None:
        return parts
    held = next(filter(None, (held_settings(part.path) for part in parts)), None)
    threads = cores if held is None else held.get("threads")
    return [replace(part, base=part.base.model_copy(update={"threads": threads})) for part in parts]
