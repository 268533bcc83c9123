"""Runs that are queued up to a step: they are paused there, and wait again for a later one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from gradgate.files import write_json
from gradgate.study.grid import GridRun
from gradgate.study.workers.queued_run import this_worker
from support.queues import AFAR, Opened, finish, reach, runs, silence, states


def until(run: GridRun, step: int | None) -> list[GridRun]:
    return [replace(run, until=step)]


def test_a_run_waits_again_for_a_later_step_alone(opened: Opened, tmp_path: Path) -> None:
    queue, (run,) = opened(), runs(tmp_path, seeds=1, methods=("full",))
    for step in (12, 24):
        queue.add(until(run, step))
        claimed = queue.claim(this_worker())
        assert claimed is not None
        assert claimed.until == step
        assert opened().runs()[0].state == "running"
        reach(run, step)
        queue.pause(claimed)
        queue.add(until(run, step))
        (held,) = opened().runs()
        assert (held.state, held.paused) == ("paused", {"step": step, "total": 96})
    assert len(queue.store.study.trials) == 2
    assert queue.retry() == []
    queue.add([run])
    (held,) = queue.runs()
    assert (held.state, held.until, held.paused) == ("waiting", None, None)


def test_a_run_that_waits_takes_the_latest_step(opened: Opened, tmp_path: Path) -> None:
    queue, (run,) = opened(), runs(tmp_path, seeds=1, methods=("full",))
    for step in (12, None, 24):
        queue.add(until(run, step))
        assert [(held.state, held.until) for held in queue.runs()] == [("waiting", step)]
    assert len(queue.store.study.trials) == 1


def test_what_is_paused_or_finished_without_the_store_is_taken_over(opened: Opened, tmp_path: Path) -> None:
    queue, (run,) = opened(), runs(tmp_path, seeds=1, methods=("full",))
    reach(run, 12)
    queue.add(until(run, 12))
    assert states(queue) == {"paused": 1}
    queue.add(until(run, 13))
    assert states(queue) == {"waiting": 1}
    claimed = queue.claim(this_worker())
    assert claimed is not None
    reach(run, 13)
    queue.pause(claimed)
    finish(run)
    queue.add([run])
    assert states(queue) == {"finished": 1}


def test_a_run_keeps_its_step_when_its_worker_dies_or_it_is_retried(opened: Opened, tmp_path: Path) -> None:
    queue, (run,) = opened(), runs(tmp_path, seeds=1, methods=("full",))
    queue.add(until(run, 12))
    assert queue.claim(AFAR) is not None
    silence(tmp_path)
    queue.recover()
    assert [(held.state, held.until, held.lost) for held in queue.runs()] == [("waiting", 12, 1)]
    claimed = queue.claim(this_worker())
    assert claimed is not None
    queue.pause(claimed)
    (held,) = queue.runs()
    assert held.state == "failed", "its folder does not say that it is paused"
    assert held.error is not None
    assert "pauses.json, which says where the run is paused, is missing" in held.error
    assert [again.until for again in queue.retry()] == [12]
    assert [(held.state, held.until, held.lost) for held in queue.runs()] == [("waiting", 12, 0)]


def test_a_run_that_failed_after_its_pause_is_not_taken_for_paused(opened: Opened, tmp_path: Path) -> None:
    queue, (run,) = opened(), runs(tmp_path, seeds=1, methods=("full",))
    reach(run, 12)
    write_json(run.folder.error_file, {"type": "NonFiniteError", "message": "The loss became nan.", "step": 20})
    queue.add(until(run, 12))
    assert states(queue) == {"waiting": 1}


def test_a_paused_run_without_its_folder_is_trained_again(opened: Opened, tmp_path: Path) -> None:
    queue, (run,) = opened(), runs(tmp_path, seeds=1, methods=("full",))
    reach(run, 12)
    queue.add(until(run, 12))
    shutil.rmtree(run.folder.path)
    queue.add(until(run, 12))
    assert [(held.state, held.until) for held in queue.runs()] == [("waiting", 12)]


def test_what_is_held_back_waits_again_when_it_is_added(opened: Opened, tmp_path: Path) -> None:
    queue, (first, second) = opened(), runs(tmp_path, seeds=2, methods=("full",))
    queue.add([first, second])
    queue.hold_back([second])
    assert [(held.state, held.paused) for held in opened().runs()] == [
        ("paused", {"step": 0, "total": 0}),
        ("waiting", None),
    ]
    queue.add(until(first, 12))
    assert [(held.state, held.until) for held in queue.runs()] == [("waiting", 12), ("waiting", None)]


def test_runs_are_withdrawn_by_folder_unless_one_of_them_is_trained(opened: Opened, tmp_path: Path) -> None:
    queue, (first, second) = opened(), runs(tmp_path, seeds=2, methods=("full",))
    queue.add([first, second])
    assert queue.claim(AFAR) is not None
    assert not queue.withdraw([first.folder.path, second.folder.path])
    assert [held.state for held in opened().runs()] == ["running", "waiting"]
    assert queue.withdraw([second.folder.path])
    assert [held.state for held in opened().runs()] == ["running", "paused"]
    queue.add([second])
    assert [held.state for held in queue.runs()] == ["running", "waiting"]
