"""A study of forty cells: what kills, and what trains, its workers makes no difference to a single score."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from gradgate.runs.state import RunState
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.conditions import Conditions
from gradgate.study.export import records
from gradgate.study.planning import Execution, StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.status import read_status
from gradgate.study.workers.ray import RayCluster
from gradgate.study.workers.store import read_store

pytestmark = pytest.mark.slow

METHODS = ["full", "head", "graddrop:p=0.2", "gradual:every=4"]
SEEDS = [0, 1, 2, 3, 4]
CELLS = 40


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 30, "save_every": 3, "threads": 1, "keep_model": False})


@pytest.fixture(scope="module")
def tasks(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [base.task, str(shutil.copytree(base.task, tmp_path_factory.mktemp("tasks") / "other"))]


@pytest.fixture(scope="module")
def undisturbed(base: RunConfig, tasks: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies") / "undisturbed"
    parts = Conditions.of(base, tasks)
    tally = compare(
        StudyRequest(base, METHODS, SEEDS, conditions=parts), folder, SilentStudy(), execution=Execution(workers=2)
    )
    assert tally == RunCounts(finished=CELLS, failed=0)
    return folder


def scores(folder: Path) -> dict[tuple[Any, ...], Any]:
    cells = records(folder)
    found = {(cell["task"], cell["method"], cell["seed"]): (cell["status"], cell["scores"]) for cell in cells}
    assert len(found) == len(cells) == CELLS
    return found


def finished_once(folder: Path) -> bool:
    """Whether the store has each cell as finished, and none twice."""
    store = read_store(folder)
    assert store is not None
    done = [trial.user_attrs["fingerprint"] for trial in store.study.get_trials(states=[TrialState.COMPLETE])]
    store.close()
    return len(done) == len(set(done)) == CELLS


def gradgate(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "gradgate", *words, "--quiet"], stderr=subprocess.DEVNULL)


def wait_for(ready: Callable[[], bool], *processes: subprocess.Popen[bytes]) -> None:
    while not ready():
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"ended with {process.wait(timeout=0.1)} too early")


def test_two_workers_that_are_killed_twice_leave_every_cell_done_once(
    base: RunConfig, tasks: list[str], undisturbed: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    words = ["compare", "--out", str(study), "--seeds", "5", "--grace", "5"]
    words += [word for method in METHODS for word in ("-m", method)] + [w for task in tasks for w in ("--task", task)]
    own = {name: value for name, value in base.record().items() if value not in (None, False) and name != "task"}
    words += [
        w for name, v in own.items() if name not in ("method", "seed") for w in (f"--{name.replace('_', '-')}", str(v))
    ]
    words += ["--no-keep-model"]
    for enough in (6, 20):
        first = gradgate(*words)
        wait_for((study / "study.db").is_file, first)
        second = gradgate("worker", str(study))

        def in_the_middle(enough: int = enough) -> bool:
            status = read_status(study)
            workers = {
                run.claimed_by for run in status.runs if run.state == "running" and run.place and run.place["step"]
            }
            return status.count(RunState.FINISHED) >= enough and len(workers) == 2

        wait_for(in_the_middle, first, second)
        for process in (first, second):
            process.kill()
            process.wait()
    assert gradgate(*words).wait() == 0
    assert finished_once(study)
    assert scores(study) == scores(undisturbed)


def test_ray_trains_the_same(base: RunConfig, tasks: list[str], undisturbed: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs gradgate[ray]")
    study = tmp_path / "study"
    ray, parts = RayCluster("local"), Conditions.of(base, tasks)
    tally = compare(
        StudyRequest(base, METHODS, SEEDS, conditions=parts), study, SilentStudy(), execution=Execution(ray=ray)
    )
    assert tally == RunCounts(finished=CELLS, failed=0)
    assert finished_once(study)
    assert scores(study) == scores(undisturbed)
