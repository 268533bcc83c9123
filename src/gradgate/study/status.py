"""How far a study is: what waits, runs, has finished or failed, and how long the rest may take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.grid import Grid
from gradgate.study.parts import part_folders, refuse_part
from gradgate.study.results import read_study
from gradgate.study.search import all_runs
from gradgate.study.study_file import read_study_file
from gradgate.study.workers.queue import Queue, QueuedRun
from gradgate.study.workers.store import open_store, read_store

STATES = ("finished", "running", "waiting", "paused", "failed", "pruned")
_IF_ANY = ("paused", "pruned")  # states that few studies have


@dataclass(frozen=True)
class RunStatus:
    """One run of a study.

    Attributes:
        label: method and seed.
        folder: relative to the study's; None for a run that has none.
        state: ``"finished"``, ``"running"``, ``"waiting"``, ``"paused"`` at a step to go on later, ``"failed"``, or
            ``"pruned"``: ended early in a search.
        worker: ``host:pid`` of who claimed it.
        step, total: of a running one, where known, and of a paused one.
        loss: of a running one, where known.
        lost: how many workers died while they ran it.
        error: why it failed.
        seconds: since it was claimed; of a run that has ended, how long it took.
    """

    label: str
    folder: str | None
    state: str
    worker: str | None = None
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    lost: int = 0
    error: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class StudyStatus:
    """All runs of a study in the order in which they are claimed, and its budget if it has one."""

    folder: Path
    runs: tuple[RunStatus, ...]
    budget: BudgetRecord | None = None

    def count(self, state: str) -> int:
        """How many runs are in a state."""
        return sum(run.state == state for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """What the rest takes at the pace of the finished runs; None while that is not known or nothing runs."""
        taken = [run.seconds for run in self.runs if run.state == "finished" and run.seconds]
        running = self.count("running")
        if not taken or not running:
            return None
        return median(taken) * (self.count("waiting") + running / 2) / running

    def record(self) -> dict[str, Any]:
        """For scripts."""
        runs = [{name: value for name, value in vars(run).items() if value is not None} for run in self.runs]
        return {
            "study": str(self.folder),
            **{state: self.count(state) for state in STATES},
            "seconds_left": self.seconds_left,
            **(self.budget.record() if self.budget is not None else {}),
            "runs": runs,
        }


def read_status(folder: Path, url: str | None = None) -> StudyStatus:
    """How far a study is; one without a store is judged by its folders.

    Raises:
        RunError: if the folder holds no study.
        StoreError: if the store cannot be read.
    """
    for part in part_folders(folder):
        read_study_file(part)
    budget = read_budget(folder)
    store = read_store(folder, url)
    if store is None:
        return StudyStatus(folder, tuple(_of_folders(folder)), budget)
    try:
        queue = Queue(store)
        return StudyStatus(folder, tuple(_of_queue(run, queue) for run in queue.runs()), budget)
    finally:
        store.close()


def open_queue(folder: Path, url: str | None = None) -> Queue:
    """The queue of a study that was begun; built anew from the study's file if the store is empty.

    Raises:
        RunError: if the folder holds no study.
        StoreError: if the store cannot be used.
    """
    refuse_part(folder)
    grids = [Grid.read(part) for part in part_folders(folder)]
    better = read_study_file(grids[0].path).task.metric_higher_is_better
    queue = Queue(open_store(folder, url, higher_is_better=better))
    if not queue.runs() and read_budget(folder) is None:  # of a race, its budget says what to train
        queue.add(all_runs(grids))
    return queue


def _of_queue(run: QueuedRun, queue: Queue) -> RunStatus:
    progress = run.progress if run.state == "running" else None
    reached = run.paused if run.state == "paused" else progress
    worker = run.worker if run.state != "waiting" else None
    until = run.ended or datetime.now()
    error = queue.failure_of(run)
    folder = queue.folder_of(run)
    return RunStatus(
        label=run.label,
        folder=run.folder.as_posix(),
        state="failed" if error is not None else "finished" if folder.finished else run.state,
        worker=f"{worker['host']}:{worker['pid']}" if worker else None,
        lost=run.lost,
        error=error,
        seconds=(until - run.started).total_seconds() if run.started and worker else None,
        step=reached["step"] if reached else None,
        total=reached["total"] if reached else None,
        loss=progress["loss"] if progress else None,
    )


def _of_folders(folder: Path) -> list[RunStatus]:
    states = {"finished": "finished", "paused": "paused", "failed": "failed", "missing": "waiting"}
    return [
        RunStatus(
            label=part.labelled(f"{cell.label} seed {cell.seed}"),
            folder=cell.folder.relative_to(folder).as_posix() if cell.folder else None,
            state=states[cell.status],
            error=cell.failure.message if cell.failure else None,
            step=cell.paused.step if cell.paused else None,
            total=cell.paused.of_steps if cell.paused else None,
        )
        for part in map(Grid.read, part_folders(folder))
        for cell in read_study(part.path).cells
    ]


def status_table(status: StudyStatus) -> Group:
    """Counts, the race if there is one, and one line for each run that is under way or paused."""
    shown = [state for state in STATES if state not in _IF_ANY or status.count(state)]
    counts = ", ".join(f"{status.count(state)} {state}" for state in shown)
    left = status.seconds_left
    head = f"{len(status.runs)} runs: {counts}" + (f"; about {_duration(left)} left" if left is not None else "")
    heads = [Text(head), *map(Text, _budget_lines(status.budget))]
    running = [run for run in status.runs if run.state == "running"]
    paused = [Text(f"{run.label}: {_pause(run)}") for run in status.runs if run.state == "paused"]
    if not running:
        return Group(*heads, *paused)
    table = Table("run", "worker", Column("step", justify="right"), "loss", "for", box=SIMPLE_HEAD)
    for run in running:
        step = "" if run.step is None else f"{run.step} of {run.total}"
        loss = "" if run.loss is None else f"{run.loss:.3f}"
        table.add_row(*map(Text, (run.label, run.worker or "", step, loss, _duration(run.seconds or 0))))
    return Group(*heads, table, *paused)


def _budget_lines(budget: BudgetRecord | None) -> list[str]:
    """Who is still in the race, what left, and what is known."""
    if budget is None:
        return []
    left = [departure.reason for departure in budget.verdict.departures]
    if budget.final:
        return [budget.spending, *left, f"{budget.headline} {budget.details}"]
    return [budget.spending, budget.headline, f"Still in it: {', '.join(budget.remaining)}.", *left]


def _pause(run: RunStatus) -> str:
    return f"paused at step {run.step} of {run.total}" if run.step else "held back before its first step"


def failures_table(status: StudyStatus) -> Group:
    """Each failed run with its reason and the place of its log."""
    failed = [run for run in status.runs if run.state == "failed"]
    lines = []
    for run in failed:
        lines += [Text(run.label, style="bold"), Text(f"    {run.error or 'its worker died'}")]
        lines += [Text(f"    log: {status.folder / run.folder}.log")] if run.folder else []
    return Group(*(lines or [Text("No run has failed.")]))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
