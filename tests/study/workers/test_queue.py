"""The queue of a study: what is added, who claims what, and what becomes of the runs of dead workers."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gradgate.errors import StoreError
from gradgate.study.workers import store as stores
from gradgate.study.workers.queue import LOSSES, Queue
from gradgate.study.workers.queued_run import StepsDone, this_worker
from gradgate.study.workers.store import Heartbeat, open_store, read_store, set_aside
from gradgate.study.workers.store_errors import DamagedStoreError
from support.queues import AFAR, Opened, finish, runs, silence, states


def test_only_what_is_missing_is_added(opened: Opened, tmp_path: Path) -> None:
    queue = opened()
    queue.add(runs(tmp_path, seeds=1))
    assert [run.label for run in queue.runs()] == ["full seed 0", "head seed 0"]
    queue.add(runs(tmp_path, seeds=2, audit=True))
    assert [run.label for run in queue.runs()] == ["full seed 0", "head seed 0", "full seed 1", "head seed 1"]
    assert all(run.config["audit"] for run in queue.runs())  # what may differ follows the latest call
    assert queue.runs()[0].folder.as_posix() == "runs/full/seed-0"


def test_several_that_add_the_same_at_once_add_it_once(opened: Opened, tmp_path: Path) -> None:
    queues = [opened() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda queue: queue.add(runs(tmp_path, seeds=2)), queues))
    assert len(queues[0].store.study.get_trials()) == 4


def test_of_many_workers_one_claims_each_run(opened: Opened, tmp_path: Path) -> None:
    queues = [opened() for _ in range(4)]
    queues[0].add(runs(tmp_path, seeds=4))

    def claim_all(slot: int) -> list[str]:
        claimed = []
        while run := queues[slot].claim(this_worker(slot)):
            claimed.append(run.fingerprint)
        return claimed

    with ThreadPoolExecutor(4) as pool:
        claimed = [fingerprint for part in pool.map(claim_all, range(4)) for fingerprint in part]
    assert sorted(claimed) == sorted(run.config.fingerprint() for run in runs(tmp_path, seeds=4))
    assert states(queues[0]) == {"running": 8}
    assert all(run.worker is not None for run in queues[0].runs())


def test_runs_are_claimed_in_their_order_and_a_folder_in_use_is_passed_over(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=1)
    queue.add(grid)
    with grid[0].folder.locked():
        second = queue.claim(this_worker())
        assert queue.claim(this_worker()) is None
    first = queue.claim(this_worker())
    assert first is not None
    assert second is not None
    assert (first.label, second.label) == ("full seed 0", "head seed 0")


def test_runs_finished_elsewhere_have_no_second_scores(opened: Opened, tmp_path: Path) -> None:
    grid = runs(tmp_path, seeds=1)
    finish(grid[0], accuracy=0.75)
    queue = opened()
    queue.add(grid)
    assert [run.state for run in queue.runs()] == ["finished", "waiting"]
    for trial in queue.store.study.get_trials():
        assert trial.values is None
        assert not {"scores", "metric"} & set(trial.user_attrs)


def test_a_run_whose_folder_is_gone_is_done_again(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=1, methods=("full",))
    finish(grid[0])
    queue.add(grid)
    shutil.rmtree(grid[0].folder.path)
    queue.add(grid)
    assert states(queue) == {"waiting": 1}


def test_failed_runs_wait_again_when_retried_or_added(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=1)
    queue.add(grid)
    for _ in grid:
        run = queue.claim(this_worker())
        assert run is not None
        queue.fail(run, "The loss became nan.")
    assert [run.error for run in queue.runs()] == ["The loss became nan."] * 2
    queue.recover()
    assert states(queue) == {"failed": 2}
    assert [run.label for run in queue.retry(lambda run: run.config["method"] == "head")] == ["head seed 0"]
    assert [run.state for run in queue.runs()] == ["failed", "waiting"]
    queue.add(grid)
    assert states(queue) == {"waiting": 2}


def test_a_score_that_is_no_number_is_a_failure(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=1, methods=("full",))
    queue.add(grid)
    run = queue.claim(this_worker())
    assert run is not None
    finish(grid[0], accuracy=float("nan"))
    queue.finish(run)
    assert queue.runs()[0].error == "scores.json: accuracy on dev is nan, expected a finite number."


def test_the_run_of_a_worker_that_died_here_waits_again_at_once(opened: Opened, tmp_path: Path) -> None:
    queue = opened()
    queue.add(runs(tmp_path, seeds=1))
    ended = subprocess.Popen([sys.executable, "--version"], stdout=subprocess.DEVNULL)
    ended.wait()
    queue.claim(this_worker())
    queue.claim(this_worker() | {"pid": ended.pid})
    queue.recover()
    assert [(run.state, run.lost) for run in queue.runs()] == [("running", 0), ("waiting", 1)]


def test_the_run_of_a_silent_worker_elsewhere_waits_again_for_so_often(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=1, methods=("full",))
    queue.add(grid)
    for lost in range(1, LOSSES + 2):
        assert queue.claim(AFAR) is not None
        queue.recover()
        assert states(queue) == {"running": 1}
        silence(tmp_path)
        queue.recover()
        assert queue.runs()[0].lost == lost
    assert queue.runs()[0].error == f"{LOSSES + 1} workers died while they ran it, the last one on afar."
    assert grid[0].folder.error_file.is_file()
    assert queue.claim(AFAR) is None


def test_a_worker_that_was_only_taken_for_dead_does_no_harm(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=1, methods=("full",))
    queue.add(grid)
    slow = queue.claim(AFAR)
    assert slow is not None
    silence(tmp_path)
    queue.recover()
    queue.beat(slow, {"step": 3, "total": 9, "loss": 0.1})
    finish(grid[0])
    queue.finish(slow)
    other = queue.claim(this_worker())
    assert other is not None
    queue.finish(other)
    assert states(queue) == {"finished": 1}


def test_what_a_worker_gives_back_is_claimed_by_another(opened: Opened, tmp_path: Path) -> None:
    queue = opened()
    queue.add(runs(tmp_path, seeds=1, methods=("full",)))
    run = queue.claim(AFAR)
    assert run is not None
    queue.give_back(run)
    assert queue.claim(this_worker()) is not None


def test_signs_of_life_are_those_that_the_study_was_begun_with(opened: Opened, tmp_path: Path) -> None:
    opened()
    again = open_store(tmp_path, heartbeat=Heartbeat(7, 70))
    assert again.heartbeat == Heartbeat(1, 30)
    again.close()


def test_a_locked_database_is_told(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_PATIENCE", 0.05)
    queue = opened()
    queue.add(runs(tmp_path, seeds=1))
    database = sqlite3.connect(tmp_path / "study.db")
    database.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"study\.db is locked by another program .*run the same command again"):
        queue.claim(this_worker())
    database.rollback()
    assert queue.claim(this_worker()) is not None


def test_a_damaged_database_is_told_and_can_be_set_aside(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_bytes(b"\x00not a database" * 1000)
    with pytest.raises(DamagedStoreError, match=r"study\.db is damaged"):
        opened()
    aside = set_aside(tmp_path)
    assert aside.read_bytes().startswith(b"\x00not")
    assert opened().runs() == []


def test_a_damaged_server_is_not_built_anew(tmp_path: Path) -> None:
    store = open_store(tmp_path / "study", f"sqlite:///{tmp_path / 'server.db'}")
    queue = Queue(store)
    queue.add(runs(tmp_path / "study", seeds=1, methods=("full",)))
    (run,) = queue.runs()
    store.storage.set_trial_user_attr(run.trial, "folder", "../elsewhere")
    with pytest.raises(StoreError, match="Check the address that queue= gives") as told:
        queue.runs()
    assert not isinstance(told.value, DamagedStoreError)
    store.close()


def test_looking_at_a_store_makes_and_changes_nothing(opened: Opened, tmp_path: Path) -> None:
    assert read_store(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    opened().add(runs(tmp_path, seeds=1))
    before = (tmp_path / "study.db").read_bytes()
    store = read_store(tmp_path)
    assert store is not None
    assert states(Queue(store)) == {"waiting": 2}
    with pytest.raises(StoreError, match="readonly"):
        Queue(store).claim(this_worker())
    store.close()
    assert (tmp_path / "study.db").read_bytes() == before


def test_a_store_that_is_still_being_made_is_none_yet(opened: Opened, tmp_path: Path) -> None:
    opened()
    made = sqlite3.connect(tmp_path / "study.db")
    for statement in ("DELETE FROM studies", "DELETE FROM version_info", "DROP TABLE studies"):
        made.execute(statement)
        made.commit()
        assert read_store(tmp_path) is None
    made.close()
    (tmp_path / "study.db").write_bytes(b"")
    assert read_store(tmp_path) is None
    assert (tmp_path / "study.db").read_bytes() == b""


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("somewhere", "is not an address: expected one such as postgresql"),
        ("postgresql+psycopg://me:secret@127.0.0.1:9/none", r"me:\*\*\*@127\.0\.0\.1:9/none cannot be used"),
    ],
)
def test_a_server_that_cannot_be_had_is_told_without_the_password(url: str, message: str, tmp_path: Path) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=message) as told:
        open_store(tmp_path, url)
    assert "secret" not in str(told.value)


def test_the_address_of_the_environment_is_not_for_a_study_with_its_own_file(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = opened().store.study.study_name
    url = f"sqlite:///{tmp_path / 'other.db'}"
    monkeypatch.setenv("GRADGATE_QUEUE", url)
    store = open_store(tmp_path, url)
    assert store.study.study_name == own
    assert not (tmp_path / "other.db").exists()
    store.close()


def test_a_study_stays_with_the_store_that_it_was_begun_with(opened: Opened, tmp_path: Path) -> None:
    opened()
    with pytest.raises(StoreError, match=r"keeps its queue in .*study\.db\. Leave queue= out"):
        open_store(tmp_path, f"sqlite:///{tmp_path / 'other.db'}")
    elsewhere = tmp_path / "elsewhere"
    url = f"sqlite:///{tmp_path / 'other.db'}"
    store = open_store(elsewhere, url)
    store.close()
    with pytest.raises(StoreError, match=r"is in another database, .*other\.db'\. Pass its address as queue="):
        open_store(elsewhere)
    again = open_store(elsewhere, url)
    assert again.study.study_name == store.study.study_name
    again.close()


def done(step: int, total: int = 10) -> StepsDone:
    return {"step": step, "total": total, "loss": None}


def test_a_dev_score_below_the_median_of_like_runs_ends_a_run_early(opened: Opened, tmp_path: Path) -> None:
    queue = opened()
    queue.add([replace(run, pruned_against="full") for run in runs(tmp_path, seeds=4, methods=("full",))])
    for accuracy, poor in ((0.5, False), (0.7, False), (0.4, True), (0.65, False)):
        run = queue.claim(this_worker())
        assert run is not None
        assert queue.is_below_median(run, done(5), accuracy) is poor
        if poor:
            queue.prune(run)
        else:
            finish(runs(tmp_path, seeds=4, methods=("full",))[run.config["seed"]], accuracy)
            queue.finish(run)
    assert [run.state for run in queue.runs()] == ["finished", "finished", "pruned", "finished"]
    queue.add([replace(run, pruned_against="full") for run in runs(tmp_path, seeds=4, methods=("full",))])
    assert states(queue) == {"finished": 3, "pruned": 1}


def test_no_dev_score_ends_a_run_in_its_first_half_and_a_better_one_later_saves_it(
    opened: Opened, tmp_path: Path
) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=4, methods=("full",))
    queue.add([replace(run, pruned_against="full") for run in grid])
    for index in range(2):
        run = queue.claim(this_worker())
        assert run is not None
        for step, accuracy in ((2, 0.5), (4, 0.6), (5, 0.6), (8, 0.6)):
            assert not queue.is_below_median(run, done(step, 9), accuracy)
        finish(grid[index], 0.6)
        queue.finish(run)
    slow = queue.claim(this_worker())
    assert slow is not None
    assert [queue.is_below_median(slow, done(step, 9), 0.0) for step in (2, 4, 5)] == [False, False, True]
    late = queue.claim(this_worker())
    assert late is not None
    scores = ((2, 0.0), (4, 0.1), (5, 0.7), (8, 0.1))
    assert not any(queue.is_below_median(late, done(step, 9), accuracy) for step, accuracy in scores)


def test_only_like_runs_are_held_against_each_other(opened: Opened, tmp_path: Path) -> None:
    queue, grid = opened(), runs(tmp_path, seeds=2)
    queue.add([replace(run, pruned_against=run.config.method.text) for run in grid])
    for _ in range(3):  # full, head, full
        run = queue.claim(this_worker())
        assert run is not None
        assert not queue.is_below_median(run, done(5), 0.9 if run.pruned_against == "full" else 0.1)
        finish(next(other for other in grid if other.label == run.label), 0.9)
        queue.finish(run)
    last = queue.claim(this_worker())
    assert last is not None
    assert not queue.is_below_median(last, done(5), 0.05)  # two of the same method must have finished
