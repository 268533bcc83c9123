"""Several workers on one study: each run once, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from optuna.trial import TrialState

from gradgate.errors import StoreError
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.runs.state import RunState
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import Execution, StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.status import open_queue, read_status, status_table
from gradgate.study.workers import worker
from gradgate.study.workers.process import visible_to
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.store import Heartbeat, read_store
from gradgate.study.workers.worker import join
from support.run_folders import assert_same_run, history
from support.study_folder import fail, write_study

COMPARE = """
import json, sys
from pathlib import Path
from gradgate.study.compare import compare
from gradgate.study.planning import StudyRequest, Execution
from gradgate.study.progress import SilentStudy
from gradgate.study.workers.store import Heartbeat
from gradgate.settings.run import RunConfig

if __name__ == "__main__":
    base = RunConfig(**json.loads(sys.argv[1]))
    compare(StudyRequest(base, ["full", "head"], [0]), Path(sys.argv[2]), SilentStudy(),
            execution=Execution(heartbeat=Heartbeat(1, 30)))
"""


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 60, "save_every": 2, "threads": 1})


@pytest.fixture(scope="module")
def short(base: RunConfig) -> RunConfig:
    """For what happens between runs."""
    return base.model_copy(update={"steps": 4})


@pytest.fixture(scope="module")
def soon_done(short: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies") / "soon-done"
    two = Execution(workers=2)
    assert compare(StudyRequest(short, ["full", "head"], [0]), folder, SilentStudy(), execution=two) == RunCounts(2, 0)
    return folder


@pytest.fixture(scope="module")
def done(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two methods with one seed, trained by two workers."""
    folder = tmp_path_factory.mktemp("studies") / "done"
    assert compare(
        StudyRequest(base, ["full", "head"], [0]), folder, SilentStudy(), execution=Execution(workers=2)
    ) == RunCounts(finished=2, failed=0)
    return folder


def states(folder: Path) -> list[str]:
    return [run.state for run in read_status(folder).runs]


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not ready():
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"ended with {process.wait(timeout=0.02)} too early")


@pytest.mark.slow
def test_a_killed_study_is_finished_by_another_worker_with_the_same_results(
    base: RunConfig, done: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    script = tmp_path / "script.py"
    script.write_text(COMPARE)
    process = subprocess.Popen([sys.executable, str(script), json.dumps(base.record()), str(study)])
    folder = RunFolder(study / "runs/full/seed-0")
    wait_for((folder.checkpoints / "checkpoint-4/seal.json").is_file, process)
    process.kill()
    process.wait()
    while folder.is_locked:  # the run notices, saves and stops
        os.sched_yield()
    assert not folder.finished
    assert not folder.error_file.exists()
    assert states(study) == ["running", "waiting"]
    assert join(study, None, SilentStudy()) == 0
    assert states(study) == ["finished", "finished"]
    for method in ("full", "head"):
        assert_same_run(study / f"runs/{method}/seed-0", done / f"runs/{method}/seed-0")
    store = read_store(study)
    assert store is not None
    assert len(store.study.get_trials(states=[TrialState.COMPLETE])) == 2
    store.close()


def test_a_finished_study_leaves_nothing_to_a_worker(soon_done: Path) -> None:
    before = history(soon_done / "runs/full/seed-0")
    assert join(soon_done, None, SilentStudy(), count=2) == 0
    assert history(soon_done / "runs/full/seed-0") == before


@pytest.mark.usefixtures("here")
def test_a_store_that_fails_stops_the_workers_with_their_runs_saved(
    short: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("study.db cannot be written (database or disk is full).")

    study = tmp_path / "study"
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "finish", full)
        patch.setattr(worker, "_TRIES", 2)  # each further one waits for a second
        with pytest.raises(StoreError, match="disk is full"):
            compare(
                StudyRequest(short, ["full"], [0]),
                study,
                SilentStudy(),
                execution=Execution(heartbeat=Heartbeat(1, 30)),
            )
    scores = (study / "runs/full/seed-0/scores.json").read_bytes()
    assert compare(StudyRequest(short, ["full"], [0]), study, SilentStudy()) == RunCounts(finished=1, failed=0)
    assert (study / "runs/full/seed-0/scores.json").read_bytes() == scores
    assert states(study) == ["finished"]


def test_a_damaged_store_is_built_anew_and_finished_runs_stay(soon_done: Path, short: RunConfig) -> None:
    (soon_done / "study.db").write_bytes(b"\x00" * 5000)
    told: list[str] = []
    heard = SilentStudy()
    heard.note = told.append  # type: ignore[method-assign]
    assert compare(StudyRequest(short, ["full", "head"], [0]), soon_done, heard) == RunCounts(finished=2, failed=0)
    assert "study.db is damaged" in told[0]
    assert len(list(soon_done.glob("study.db.damaged-*"))) == 1
    assert states(soon_done) == ["finished", "finished"]


@pytest.mark.usefixtures("here")
def test_threads_are_a_setting_of_the_study(short: RunConfig, tmp_path: Path) -> None:
    free = short.model_copy(update={"threads": None})
    compare(StudyRequest(free, ["head"], [0]), tmp_path / "study", SilentStudy(), execution=Execution(workers=2))
    record = json.loads((tmp_path / "study/study.json").read_text())
    assert record["settings"]["threads"] == 1
    compare(StudyRequest(free, ["head"], [1]), tmp_path / "study", SilentStudy(), execution=Execution(workers=1))
    for seed in (0, 1):
        run = json.loads((tmp_path / f"study/runs/head/seed-{seed}/run.json").read_text())
        assert run["config"]["threads"] == 1


def test_a_study_without_a_store_is_judged_by_its_folders_and_can_be_joined(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", scores={"full": [0.7, 0.8]})
    fail(study, "full", 2, "The loss became nan.")
    status = read_status(study)
    assert [status.count(state) for state in (RunState.FINISHED, RunState.FAILED, RunState.WAITING)] == [2, 1, 3]
    assert not (study / "study.db").exists()
    assert "6 runs: 2 finished, 0 running, 3 waiting, 1 failed" in str(status_table(status).renderables[0])
    queue = open_queue(study)
    assert len(queue.runs()) == 6
    queue.store.close()


def test_ctrl_c_saves_the_runs_of_a_worker(base: RunConfig, tmp_path: Path) -> None:
    class Interrupts(SilentStudy):
        def count(self, states: Any) -> None:
            if states.get("running"):
                os.kill(os.getpid(), signal.SIGINT)

    endless = base.model_copy(update={"steps": 100_000, "save_every": 100_000})
    study = tmp_path / "study"
    with pytest.raises(InterruptedRunError) as stopped:
        compare(StudyRequest(endless, ["full", "head"], [0]), study, Interrupts(), execution=Execution(workers=2))
    assert stopped.value.exit_code == 130
    assert states(study) == ["waiting", "waiting"]


@pytest.mark.parametrize(
    ("variable", "count", "seen"),
    [
        ("3,5,7", 3, ["3", "5", "7", "3"]),
        (None, 2, ["0", "1", "0", "1"]),
        ("GPU-2f", 1, ["GPU-2f"] * 4),
        ("", 0, [""] * 4),
        (None, 1, [None] * 4),
        (None, 0, [None] * 4),
    ],
)
def test_workers_take_the_gpus_in_turn(
    variable: str | None, count: int, seen: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert [visible_to(slot) for slot in range(4)] == seen
