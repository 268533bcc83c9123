"""Runs of a study that are trained to a step, rest there, and go on: by workers, whatever is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from gradgate.runs.folder import RunFolder
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.grid import Grid
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.status import open_queue, read_status, status_table
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.store import Heartbeat, open_store
from gradgate.study.workers.worker import Workers
from gradgate.training.preview import preview
from gradgate.training.run import train
from support.arms import arms
from support.run_folders import assert_same_run
from support.study_folder import pause, write_study

WORK = """
import sys
from pathlib import Path
from threading import Event
from gradgate.study.progress import SilentStudy
from gradgate.study.status import open_queue
from gradgate.study.workers.worker import Workers

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    Workers(open_queue(folder), folder / "cache", SilentStudy(), Event()).work()
"""


def begin(folder: Path, base: RunConfig, *methods: str) -> tuple[Grid, Queue]:
    """A study without a run in its queue."""
    grid = Grid.of(folder, base, arms(methods), [0])
    seen = preview(base)
    grid = grid.write(seen.task, seen.model, seen.versions)
    return grid, Queue(open_store(folder, heartbeat=Heartbeat(1, 30)))


class Heard(SilentStudy):
    """Remembers how runs ended, and how many were in each state at last."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str, bool]] = []
        self.states: dict[str, int] = {}

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self.ended.append((label, outcome.partition(", dev accuracy")[0], failed))

    def count(self, states: Any) -> None:
        self.states = dict(states)


def work(queue: Queue) -> Heard:
    heard = Heard()
    Workers(queue, queue.store.folder / "cache", heard, Event()).work()
    return heard


def test_workers_pause_runs_and_go_on_with_the_same_bits(settings: dict[str, Any], tmp_path: Path) -> None:
    base = make_config(**settings | {"steps": 6, "eval_every": 4, "threads": 1})
    grid, queue = begin(tmp_path / "study", base, "head")
    (run,) = grid.runs()
    for step in (3, 5):
        queue.add([replace(run, until=step)])
        assert work(queue).ended == [("head seed 0", f"paused at step {step} of 6", False)]
    status = read_status(tmp_path / "study")
    assert [(of.state, of.place) for of in status.runs] == [("paused", {"step": 5, "total": 6})]
    assert status.runs[0].claimed_by is not None
    (cell,) = read_study(tmp_path / "study").cells
    assert cell.paused is not None
    assert list(cell.paused.dev) == [3, 4, 5]
    queue.add([run])
    heard = work(queue)
    assert heard.states == {"finished": 1}
    queue.store.close()
    train(run.config, tmp_path / "unbroken")
    assert_same_run(run.folder.path, tmp_path / "unbroken")


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not ready():
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"ended with {process.wait(timeout=0.02)} too early")


@pytest.mark.slow
def test_a_worker_that_is_killed_on_the_way_to_a_step_is_made_up_for(settings: dict[str, Any], tmp_path: Path) -> None:
    base = make_config(**settings | {"steps": 90, "save_every": 2, "threads": 1})
    study, script = tmp_path / "study", tmp_path / "script.py"
    script.write_text(WORK)
    grid, queue = begin(study, base, "graddrop")
    (run,) = grid.runs()
    queue.add([replace(run, until=60)])
    process = subprocess.Popen([sys.executable, str(script), str(study)])
    wait_for((run.folder.checkpoints / "checkpoint-4/seal.json").is_file, process)
    process.kill()
    process.wait()
    while run.folder.is_locked:  # the run notices, saves and stops
        os.sched_yield()
    assert not run.folder.pauses_file.exists()
    work(queue)
    assert [(of.state, of.place, of.lost) for of in read_status(study).runs] == [
        ("paused", {"step": 60, "total": 90}, 1)
    ]
    queue.store.close()
    train(base.model_copy(update={"method": run.config.method}), tmp_path / "unbroken")
    train(run.config, run.folder.path)
    assert_same_run(run.folder.path, tmp_path / "unbroken")


def test_paused_runs_are_shown_with_their_step(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", scores={"full": [0.7]})
    pause(study, "full", 1)
    status = read_status(study)
    head, line = status_table(status).renderables
    assert "6 runs: 1 finished, 0 running, 4 waiting, 1 paused, 0 failed" in str(head)
    assert str(line) == "full seed 1: paused at step 12 of 80"
    record = json.loads(json.dumps(status.record()))
    assert record["paused"] == 1
    assert [(run["step"], run["total"]) for run in record["runs"] if run["state"] == "paused"] == [(12, 80)]


def test_a_study_without_a_store_trains_paused_runs_to_their_end(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", methods=("full",), seeds=(0,))
    RunFolder(pause(study, "full", 0)).path.parent.rename(study / "runs/full")  # where a comparison looks for it
    queue = open_queue(study)
    assert [(run.state, run.until) for run in queue.runs()] == [("waiting", None)]
    queue.store.close()
