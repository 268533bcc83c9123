"""A comparison: what is run, what is left alone, and how it goes on after a failure."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradgate.errors import GradgateError, MethodError, RunError, UsageError
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.runs.progress import RunProgress, Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.training.run import train
from support.run_folders import assert_same_run, files
from support.trained_here import trained_here


class Heard(SilentStudy):
    """Remembers what it hears of a study; ``on_step`` may interfere."""

    def __init__(self, on_step: Callable[[int], None] = lambda step: None) -> None:
        self.total: tuple[int, int] | None = None
        self.ended: list[tuple[str, str, bool]] = []
        self.notes: list[str] = []
        self.on_step = on_step

    def note(self, text: str) -> None:
        self.notes.append(text)

    def begin_study(self, total: int, finished: int) -> None:
        self.total = total, finished

    def begin_run(self, label: str) -> RunProgress:
        heard = self

        class Steps(Silent):
            def advance(self, step: int, loss: float | None) -> None:
                heard.on_step(step)

        return Steps()

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self.ended.append((label, outcome, failed))


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 6, "save_every": 2})


@pytest.fixture(scope="module")
def done(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of two methods with one seed, by a script without a guard. Copy it before it is changed."""
    folder = tmp_path_factory.mktemp("studies") / "done"
    heard, script = Heard(), ModuleType("__main__")
    script.__file__ = str(folder.parent / "script.py")
    (folder.parent / "script.py").write_text("raise SystemExit('a run has imported the script again')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", script)
        assert compare(StudyRequest(base, ["full", "head"], [0]), folder, heard) == RunCounts(finished=2, failed=0)
    assert heard.total == (2, 0)
    assert [(label, failed) for label, _, failed in heard.ended] == [("full seed 0", False), ("head seed 0", False)]
    return folder


@pytest.fixture
def study(done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "study"))


def test_each_run_is_what_train_alone_would_give(done: Path, base: RunConfig, tmp_path: Path) -> None:
    train(base.model_copy(update={"method": "head"}), tmp_path / "run")
    assert_same_run(done / "runs/head/seed-0", tmp_path / "run")


def test_the_study_file_says_what_was_compared(done: Path, base: RunConfig) -> None:
    record = json.loads((done / "study.json").read_text())
    assert (record["methods"], record["seeds"]) == (["full", "head"], [0])
    assert record["task"]["name"].startswith("moods")
    assert record["task"]["metric"] == "accuracy"
    assert record["model"]["name"] == base.model
    assert record["settings"]["steps"] == 6
    assert not {"method", "seed"} & record["settings"].keys()


@pytest.mark.usefixtures("here")
def test_methods_and_seeds_are_added_and_nothing_is_done_twice(study: Path, base: RunConfig) -> None:
    before, heard = files(study / "runs"), Heard()
    assert compare(StudyRequest(base, ["graddrop"], [0]), study, heard) == RunCounts(finished=3, failed=0)
    assert heard.total == (3, 2)
    assert [label for label, _, _ in heard.ended] == ["graddrop seed 0"]
    after = files(study / "runs")
    assert {name: after[name] for name in before} == before
    assert json.loads((study / "study.json").read_text())["methods"] == ["full", "head", "graddrop"]


@pytest.mark.usefixtures("here")
def test_what_a_study_holds_from_before_is_named_while_it_has_missing_runs(study: Path, base: RunConfig) -> None:
    (study / "runs/head/seed-0/scores.json").unlink()
    heard = Heard()
    compare(StudyRequest(base, ["full"], [1]), study, heard)
    (note,) = [note for note in heard.notes if "from before" in note]
    assert note.startswith(f"{study} also holds head, seed 0 from before, and the runs of these that are missing")
    again = Heard()
    compare(StudyRequest(base, ["full"], [1]), study, again)
    assert not [note for note in again.notes if "from before" in note]


@pytest.mark.parametrize(
    ("methods", "change", "error", "message"),
    [
        (["full", "freeze:layers=99"], {}, MethodError, "asks for 99 closed layers, but the model has 2"),
        (["full", "graddrop:p=1.0"], {}, MethodError, r"p=1\.0 \(expected 0 <= p < 1"),
        (["full", "unfreeze"], {}, MethodError, "no method 'unfreeze'"),
        ([], {}, UsageError, "at least one method"),
        (
            ["probe", "full"],
            {"tapt_steps": 5},
            UsageError,
            "'probe' and tapt_steps= or tapt_epochs= cannot",
        ),
        (["full", "head", "full:lr=0.001"], {"lr": 1e-3}, UsageError, "full and full:lr=0.001 train the same"),
        (
            ["full", "full:clip=1"],
            {"clip": 0.0, "release_gradients": True},
            UsageError,
            "release_gradients= cannot be combined with clip",
        ),
        (["full"], {"train_size": 81}, UsageError, "the train split has 80 rows"),
        (["full"], {"max_length": 999}, UsageError, "999 is more than the 64 positions"),
        (["full"], {"device": "cuda"}, RunError, "torch sees no CUDA device"),
        (["full"], {"layers": "encoder.blocks"}, GradgateError, "'encoder.blocks' does not exist"),
        (["full"], {"model": "no-such/model"}, RunError, "HF_HUB_OFFLINE is set, and the cache has no copy"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    base: RunConfig, methods: list[str], change: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    if change.get("device") == "cuda":
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is a CUDA device")
    with pytest.raises(error, match=message):
        compare(StudyRequest(base.model_copy(update=change), methods, [0]), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


def test_other_settings_are_refused_and_change_nothing(study: Path, base: RunConfig) -> None:
    before = files(study)
    with pytest.raises(RunError, match=r"other settings \(lr: 0\.001 there, 0\.5 here\)"):
        compare(StudyRequest(base.model_copy(update={"lr": 0.5}), ["full"], [0]), study, SilentStudy())
    assert files(study) == before


@pytest.mark.usefixtures("here")
def test_a_failed_run_is_counted_and_only_it_is_tried_again(base: RunConfig, study: Path) -> None:
    hindrance = study / "runs/full/seed-0/notes.txt"
    shutil.rmtree(hindrance.parent)
    hindrance.parent.mkdir()
    hindrance.write_text("not a run")
    heard = Heard()
    assert compare(StudyRequest(base, ["head", "full"], [0]), study, heard) == RunCounts(finished=1, failed=1)
    assert heard.ended == [
        ("full seed 0", f"{hindrance.parent} is not empty and holds no run. Pass another out=.", True)
    ]
    assert json.loads((hindrance.parent / "error.json").read_text())["type"] == "RunError"
    finished = files(study / "runs/head")
    hindrance.unlink()
    assert compare(StudyRequest(base, ["head", "full"], [0]), study, SilentStudy()) == RunCounts(finished=2, failed=0)
    assert not (hindrance.parent / "error.json").exists()
    assert files(study / "runs/head") == finished


def test_a_loss_that_is_no_number_fails_its_run_and_the_study_goes_on(base: RunConfig, tmp_path: Path) -> None:
    heard = Heard()
    wild = base.model_copy(update={"lr": 1e30})
    assert compare(StudyRequest(wild, ["full", "head"], [0]), tmp_path / "study", heard) == RunCounts(
        finished=0, failed=2
    )
    assert [failed for _, _, failed in heard.ended] == [True, True]
    for method in ("full", "head"):
        error = json.loads((tmp_path / f"study/runs/{method}/seed-0/error.json").read_text())
        assert error["type"] == "NonFiniteError"
        assert "step" in error["message"]
        assert error["step"] is not None


def test_a_killed_process_is_a_failed_run_and_resumes_when_tried_again(
    base: RunConfig, done: Path, tmp_path: Path
) -> None:
    others = set(multiprocessing.active_children())

    def kill(step: int) -> None:
        if step == 5:
            (worker,) = set(multiprocessing.active_children()) - others
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)

    heard = Heard(kill)
    assert compare(StudyRequest(base, ["full"], [0]), tmp_path / "study", heard) == RunCounts(finished=0, failed=1)
    ((_, reason, failed),) = heard.ended
    assert failed
    assert "ended by signal 9 (SIGKILL)" in reason
    assert "run out of memory: try a smaller batch_size=" in reason
    assert json.loads((tmp_path / "study/runs/full/seed-0/error.json").read_text())["type"] == "ProcessDied"
    with trained_here():
        assert compare(StudyRequest(base, ["full"], [0]), tmp_path / "study", SilentStudy()) == RunCounts(
            finished=1, failed=0
        )
    assert_same_run(tmp_path / "study/runs/full/seed-0", done / "runs/full/seed-0")


def test_ctrl_c_saves_the_run_and_the_study_goes_on_from_there(base: RunConfig, done: Path, tmp_path: Path) -> None:
    sent: list[int] = []

    def interrupt(step: int) -> None:
        if step == 1 and not sent:  # a second signal would end the process of the tests
            sent.append(step)
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)

    heard = Heard(interrupt)
    with pytest.raises(InterruptedRunError, match="Run the same command again to resume") as stopped:
        compare(StudyRequest(base, ["full", "head"], [0]), tmp_path / "study", heard)
    assert stopped.value.exit_code == 130
    assert heard.ended == []
    assert not list((tmp_path / "study").rglob("error.json"))
    with trained_here():
        assert compare(StudyRequest(base, ["full", "head"], [0]), tmp_path / "study", SilentStudy()) == RunCounts(
            finished=2, failed=0
        )
    for method in ("full", "head"):
        mine, theirs = (folder / f"runs/{method}/seed-0/model" for folder in (tmp_path / "study", done))
        name = "model.safetensors" if method == "full" else "delta.safetensors"
        assert (mine / name).read_bytes() == (theirs / name).read_bytes()


@pytest.mark.slow
def test_a_comparison_that_is_asked_to_stop_on_the_command_line_goes_on(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "gradgate", "compare", *flags, "-m", "full", "-m", "head", "--seeds", "2"]

    def start(folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen([*command, "--out", str(folder), "--steps", "40"], stderr=subprocess.PIPE, text=True)

    process = start(tmp_path / "study")
    history = tmp_path / "study/runs/full/seed-0/history.jsonl"
    while not (history.is_file() and history.read_text().count("\n") > 2):
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"ended with {process.wait(timeout=0.02)} before it could be interrupted")
    process.send_signal(signal.SIGINT)
    told = process.communicate()[1]
    assert process.returncode == 130
    assert "Run the same command again to resume." in told
    assert "Traceback" not in told
    for folder in (tmp_path / "study", tmp_path / "unbroken"):
        again = start(folder)
        again.communicate()
        assert again.returncode == 0
    runs = sorted(path.relative_to(tmp_path / "study") for path in (tmp_path / "study").rglob("model/*.safetensors"))
    assert len(runs) == 4
    for run in runs:
        assert (tmp_path / "study" / run).read_bytes() == (tmp_path / "unbroken" / run).read_bytes()
