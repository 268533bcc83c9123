"""Runs in the queue of a study, and what their workers leave, without a training."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradgate.files import write_json
from gradgate.runs.history import DevRecord
from gradgate.runs.pauses import note_pause
from gradgate.settings.run import make_config
from gradgate.study.grid import Grid, GridRun
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.queued_run import WorkerName
from support.arms import arms

AFAR: WorkerName = {"host": "afar", "pid": 1, "slot": 0}
Opened = Callable[[], Queue]


def runs(folder: Path, seeds: int = 3, methods: tuple[str, ...] = ("full", "head"), **settings: Any) -> list[GridRun]:
    return Grid(folder, make_config(**settings), tuple(arms(methods)), tuple(range(seeds))).runs()


def finish(run: GridRun, accuracy: float = 0.5) -> None:
    cost = {"steps": 1, "seconds_per_step": 0.1, "seconds_total": 0.1, "trainable_share": 1.0}
    cost |= {"parameters": 1, "parameters_trained": 1, "device": "cpu"}
    scores = {"metric": "accuracy", "best_step": 1, "dev": {"accuracy": accuracy}, "tests": {}, "cost": cost}
    write_json(run.folder.scores_file, scores)


def states(queue: Queue) -> Counter[str]:
    return Counter(run.state for run in queue.runs())


def silence(tmp_path: Path) -> None:
    """Let the last sign of life of every worker be a minute old."""
    with sqlite3.connect(tmp_path / "study.db") as database:
        database.execute("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-60 seconds')")


def reach(run: GridRun, step: int) -> None:
    """Write what a run leaves that is paused at a step."""
    note_pause(run.folder, "accuracy", 96, 1.5, DevRecord(step, {"accuracy": 0.5}))
