"""Read how far a study is: the state of each run, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from gradgate.runs.state import RunState
from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.conditions import condition_folders, refuse_condition
from gradgate.study.grid import Grid
from gradgate.study.imported import is_imported, refuse_training
from gradgate.study.results import read_study
from gradgate.study.search import all_runs, awaiting_choice
from gradgate.study.study_file import read_study_file
from gradgate.study.workers.address import elsewhere
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.queued_run import Paused, QueuedRun
from gradgate.study.workers.store import open_store, read_store

STATES = (
    RunState.FINISHED, RunState.RUNNING, RunState.WAITING, RunState.PAUSED, RunState.FAILED, RunState.PRUNED,
)  # fmt: skip
_IF_ANY = (RunState.PAUSED, RunState.PRUNED)  # states that few studies have


@dataclass(frozen=True)
class StudyStatus:
    """All runs of a study in the order in which they are claimed, and its budget if it has one.

    Attributes:
        folder: the study folder.
        runs: that are queued.
        budget: None for a study without one.
        note: what cannot be seen if the queue is in a database whose address was not passed.
        to_follow: number of runs that are queued when the search has chosen the settings of their arms.
    """

    folder: Path
    runs: tuple[QueuedRun, ...]
    budget: BudgetRecord | None = None
    note: str = ""
    to_follow: int = 0

    def count(self, state: RunState) -> int:
        """Return the number of runs in a state."""
        return sum(run.state == state for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes at the pace of the finished runs; None while that is unknown or nothing runs."""
        taken = [run.seconds for run in self.runs if run.state is RunState.FINISHED and run.seconds]
        running = self.count(RunState.RUNNING)
        if not taken or not running:
            return None
        return median(taken) * (self.count(RunState.WAITING) + self.to_follow + running / 2) / running

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        return {
            "study": str(self.folder),
            **{state.value: self.count(state) for state in STATES},
            "to_follow": self.to_follow,
            "seconds_left": self.seconds_left,
            **({"note": self.note} if self.note else {}),
            **(self.budget.record() if self.budget is not None else {}),
            "runs": [_record(run) for run in self.runs],
        }


def read_status(folder: Path, url: str | None = None) -> StudyStatus:
    """Read how far a study is; from the folders of its runs if it has no store, or one whose address is not passed.

    It makes and changes no file.

    Raises:
        RunError: if the folder holds no study.
        StoreError: if the store cannot be read.
    """
    parts = condition_folders(folder)
    for part in parts:
        read_study_file(part)
    budget = read_budget(folder)
    store = read_store(folder, url)
    if store is None:
        return StudyStatus(folder, tuple(_of_folders(folder)), budget, _unseen(folder, url))
    try:
        queue = Queue(store)
        runs = tuple(_of_queue(run, queue) for run in queue.runs())
        return StudyStatus(folder, runs, budget, to_follow=_to_follow(folder, parts, runs))
    finally:
        store.close()


def _to_follow(folder: Path, parts: Sequence[Path], runs: Sequence[QueuedRun]) -> int:
    """Return the number of runs that wait for the choice of a search, and are not in the queue."""
    queued = {folder / run.folder for run in runs}
    grids = (Grid.read(part) for part in parts if not is_imported(part))
    return sum(run.path not in queued for grid in grids for run in awaiting_choice(grid))


def _unseen(folder: Path, url: str | None) -> str:
    """Return what the folders of runs do not show of a study with a queue elsewhere; an empty text for others."""
    where = elsewhere(folder)
    if where is not None:
        return f"{where} Pass queue= to see which runs are running; without it they count as waiting."
    return "" if url is None else "The study has no queue yet, neither at that address nor elsewhere."


def open_queue(folder: Path, url: str | None = None) -> Queue:
    """Open the queue of a study that was started; if the store is empty, queue the runs of the study's file.

    Raises:
        RunError: if the folder holds no study.
        StoreError: if the store cannot be used.
    """
    refuse_training(folder)
    refuse_condition(folder)
    grids = [Grid.read(part) for part in condition_folders(folder)]
    better = read_study_file(grids[0].path).task.metric_higher_is_better
    queue = Queue(open_store(folder, url, higher_is_better=better))
    if not queue.runs() and read_budget(folder) is None:  # a budget decides itself what to train
        queue.add(all_runs(grids))
    return queue


def _of_queue(run: QueuedRun, queue: Queue) -> QueuedRun:
    """Return a run with the state that its folder shows, which overrides the store's."""
    error = queue.failure_of(run)
    if error is not None:
        return replace(run, state=RunState.FAILED, error=error)
    return replace(run, state=RunState.FINISHED) if queue.folder_of(run).finished else run


def _of_folders(folder: Path) -> Iterator[QueuedRun]:
    """Yield the runs of a study without a store; a run that has not begun waits."""
    folders = condition_folders(folder)
    yield from (run for path in folders if is_imported(path) for run in _of_import(folder, path))
    for part in (Grid.read(path) for path in folders if not is_imported(path)):
        runs = product(part.arms, part.seeds)
        for (arm, seed), result in zip(runs, read_study(part.path).cells, strict=True):
            path, paused = result.folder or part.folder_of(arm, seed).path, result.paused
            yield QueuedRun(
                label=part.labelled(f"{result.arm.name} seed {result.seed}"),
                folder=path.relative_to(folder),
                state=RunState.WAITING if result.state is RunState.MISSING else result.state,
                error=result.failure.message if result.failure else None,
                paused=None if paused is None else Paused(step=paused.step, total=paused.of_steps or paused.step),
            )


def _of_import(folder: Path, part: Path) -> Iterator[QueuedRun]:
    """Yield the runs of an imported condition, all of which have finished."""
    results = read_study(part)
    for cell in results.cells:
        if cell.scores is not None:
            label = f"{cell.arm.name} seed {cell.seed}"
            name = f"{results.study.part}: {label}" if results.study.part else label
            yield QueuedRun(label=name, folder=part.relative_to(folder), state=cell.state)


def _record(run: QueuedRun) -> dict[str, Any]:
    """Return a run's values for scripts, without those that it has not."""
    place = run.place
    values = {
        "label": run.label,
        "folder": run.folder.as_posix(),
        "state": run.state.value,
        "worker": run.claimed_by,
        "step": place and place["step"],
        "total": place and place["total"],
        "loss": run.progress["loss"] if run.progress and run.state is RunState.RUNNING else None,
        "lost": run.lost,
        "error": run.error,
        "seconds": run.seconds,
    }
    return {name: value for name, value in values.items() if value is not None}


def status_table(status: StudyStatus, worded: Callable[[str], str] = str) -> Group:
    """Return the counts, the budget if there is one, and one line per run that is under way or paused.

    Args:
        status: what is shown.
        worded: writes the parameters in messages as the reader types them.
    """
    states = [state for state in STATES if state not in _IF_ANY or status.count(state)]
    counts = ", ".join(f"{status.count(state)} {state}" for state in states)
    left = status.seconds_left
    head = f"{len(status.runs)} runs: {counts}"
    head += f"; {status.to_follow} more when the search has ended" if status.to_follow else ""
    head += f"; about {_duration(left)} left" if left is not None else ""
    heads = [
        Text(head),
        *map(Text, _budget_lines(status.budget)),
        *([Text(worded(status.note))] if status.note else []),
    ]
    running = [run for run in status.runs if run.state is RunState.RUNNING]
    paused = [Text(f"{run.label}: {_pause(run)}") for run in status.runs if run.state is RunState.PAUSED]
    if not running:
        return Group(*heads, *paused)
    table = Table("run", "worker", Column("step", justify="right"), "loss", "for", box=SIMPLE_HEAD)
    for run in running:
        done, loss = run.progress, run.progress and run.progress["loss"]
        step = "" if done is None else f"{done['step']} of {done['total']}"
        shown_loss = "" if loss is None else f"{loss:.3f}"
        table.add_row(*map(Text, (run.label, run.claimed_by or "", step, shown_loss, _duration(run.seconds or 0))))
    return Group(*heads, table, *paused)


def _notes(status: StudyStatus, worded: Callable[[str], str]) -> list[Text]:
    return [Text(worded(status.note))] if status.note else []


def _budget_lines(budget: BudgetRecord | None) -> list[str]:
    """Return what was spent, which arms remain and which left, and what is known."""
    if budget is None:
        return []
    left = [departure.reason for departure in budget.verdict.departures]
    if budget.final:
        return [budget.spending, *left, f"{budget.headline} {budget.details}"]
    return [budget.spending, budget.headline, f"Remaining: {', '.join(budget.remaining)}.", *left]


def _pause(run: QueuedRun) -> str:
    paused = run.paused
    return f"paused at step {paused['step']} of {paused['total']}" if paused and paused["step"] else "not begun"


def failures_table(status: StudyStatus, worded: Callable[[str], str] = str) -> Group:
    """Return each failed run with its reason, as ``worded`` writes it, and the place of its log."""
    failed = [run for run in status.runs if run.state is RunState.FAILED]
    lines = []
    for run in failed:
        lines += [Text(run.label, style="bold"), Text(f"    {worded(run.error or 'its worker died')}")]
        lines.append(Text(f"    log: {status.folder / run.folder}.log"))
    return Group(*(lines or [Text("No run has failed.")]), *_notes(status, worded))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
