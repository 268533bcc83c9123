"""A run that was stopped at any moment ends as if it had never been."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.runs.progress import Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.run import train
from support.crossed import some_fast
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run
from support.tiny_folders import save_mixtral

METHODS = ("gradual:every=4", "graddrop", "layer-graddrop")


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 10 an epoch; steps that log, score and save fall apart; dropout on."""
    return make_config(**settings | {"steps": 12, "train_size": 75, "eval_every": 4, "save_every": 3} | changes)


@pytest.fixture(scope="module")
def unbroken(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs that nothing has stopped, by their methods."""

    @cache
    def trained(method: str) -> Path:
        folder = tmp_path_factory.mktemp("unbroken") / "run"
        train(config_of(settings, method=method), folder)
        return folder

    return trained


@pytest.fixture(scope="module")
def fell(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fell") / "run"
    with pytest.raises(PowerCutError):
        train(config_of(settings, method="graddrop"), folder, Falls(11))
    return folder


@pytest.fixture
def fallen(fell: Path, tmp_path: Path) -> Path:
    """A run that lost its power after step 11, with whole checkpoints of steps 6 and 9."""
    return Path(shutil.copytree(fell, tmp_path / "run"))


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name.rpartition("-")[2]))


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("graddrop", 2),
        ("graddrop", 12),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("gradual:every=4", 7), ("graddrop", 11), ("layer-graddrop", 10), ("full", 2), ("full", 12))
        ),
    ],
)
def test_a_run_without_power_ends_as_if_unbroken(
    settings: dict[str, Any], unbroken: Callable[[str], Path], method: str, step: int, tmp_path: Path
) -> None:
    config = config_of(settings, method=method)
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(step))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", unbroken(method))


def test_a_run_in_bfloat16_goes_on_from_its_masters_and_moments(settings: dict[str, Any], tmp_path: Path) -> None:
    """From step 3, across an opening; Trainer has rounded the moments when the tuner attaches."""
    config = config_of(settings, method="lisa:layers=1,every=4", weights="bfloat16", lr=1e-4, steps=6)
    train(config, tmp_path / "unbroken")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(5))
    assert (newest(tmp_path / "run") / "gradgate.safetensors").exists()
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


def test_only_the_steps_after_the_checkpoint_are_done_again(
    settings: dict[str, Any], unbroken: Callable[[str], Path], fallen: Path
) -> None:
    """The history may end in half a line, which is dropped."""

    class Heard(Silent):
        def __init__(self) -> None:
            self.steps: list[int] = []
            self.begun: tuple[int, int] | None = None
            self.notes: list[str] = []

        def begin(self, total: int, done: int) -> None:
            self.begun = total, done

        def advance(self, step: int, loss: float | None) -> None:
            self.steps.append(step)

        def note(self, text: str) -> None:
            self.notes.append(text)

    assert newest(fallen).name == "checkpoint-9"
    with (fallen / "history.jsonl").open("a") as file:
        file.write('{"step": 12, "epo')
    heard = Heard()
    train(config_of(settings, method="graddrop"), fallen, heard)
    assert heard.begun == (12, 9)
    assert heard.steps == list(range(10, 13))
    assert heard.notes == [f"Resuming from checkpoint-9 in {fallen}."]
    assert_same_run(fallen, unbroken("graddrop"))


@some_fast(
    "damage",
    ["no seal", "a flipped byte", "a missing file", "half a seal"],
    ["no seal", "a flipped byte"],
)
def test_a_damaged_checkpoint_is_passed_over(
    settings: dict[str, Any], unbroken: Callable[[str], Path], fallen: Path, damage: str
) -> None:
    checkpoint = newest(fallen)
    if damage == "no seal":
        (checkpoint / "seal.json").unlink()
    elif damage == "a flipped byte":
        flip(checkpoint / "optimizer.pt")
    elif damage == "a missing file":
        (checkpoint / "scheduler.pt").unlink()
    else:
        (checkpoint / "seal.json").write_bytes((checkpoint / "seal.json").read_bytes()[:40])
    assert RunFolder(fallen).latest_checkpoint() == fallen / "checkpoints/checkpoint-6"
    train(config_of(settings, method="graddrop"), fallen)
    assert_same_run(fallen, unbroken("graddrop"))


def test_where_every_checkpoint_is_damaged_nothing_is_guessed(settings: dict[str, Any], fallen: Path) -> None:
    for checkpoint in (fallen / "checkpoints").iterdir():
        flip(checkpoint / "model.safetensors")
    message = r"Every checkpoint in .*checkpoints is damaged: checkpoint-9, checkpoint-6\. Remove .* from the start"
    with pytest.raises(RunError, match=message):
        train(config_of(settings, method="graddrop"), fallen)


def test_damaged_best_weights_are_not_scored(settings: dict[str, Any], fallen: Path) -> None:
    # The first score is the best of this run, so that no later one takes its place.
    best = next((fallen / "best").iterdir())
    flip(best / "model.safetensors")
    with pytest.raises(RunError, match=r"best weights in .*best/step-\d+ are damaged\. Remove"):
        train(config_of(settings, method="graddrop"), fallen)
    assert not (fallen / "scores.json").exists()


def test_a_full_disk_at_the_end_loses_nothing(
    settings: dict[str, Any], unbroken: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, fallen: Path
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    config = config_of(settings, method="graddrop")
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_plan", full)
        with pytest.raises(RunError, match=r"No space left on device.*run the same command"):
            train(config, fallen)
    assert not RunFolder(fallen).finished
    train(config, fallen)
    assert_same_run(fallen, unbroken("graddrop"))


def test_a_resumed_mixture_of_experts_ends_as_if_unbroken(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config = config_of(settings, model=str(save_mixtral(tmp_path / "model")), steps=5)
    train(config, tmp_path / "unbroken")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(4))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


class Interrupts(Silent):
    """Ctrl-C after a step, once or twice."""

    def __init__(self, step: int, times: int = 1) -> None:
        self.step, self.times = step, times
        self.notes: list[str] = []

    def advance(self, step: int, loss: float | None) -> None:
        if step == self.step:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_ctrl_c_saves_the_step_and_says_how_to_go_on(
    settings: dict[str, Any], unbroken: Callable[[str], Path], tmp_path: Path
) -> None:
    config, heard = config_of(settings, method="gradual:every=4"), Interrupts(7)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(InterruptedRunError, match=r"step 7 of 12; .*Run the same command again to resume") as stopped:
        train(config, tmp_path / "run", heard)
    assert stopped.value.exit_code == 130
    assert heard.notes == ["Stopping after this step and saving; press Ctrl-C again to stop at once."]
    assert signal.getsignal(signal.SIGINT) is before
    assert newest(tmp_path / "run").name == "checkpoint-7"
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", unbroken("gradual:every=4"))


def test_a_second_ctrl_c_stops_at_once_and_loses_no_checkpoint(
    settings: dict[str, Any], unbroken: Callable[[str], Path], fallen: Path
) -> None:
    config = config_of(settings, method="graddrop")
    with pytest.raises(KeyboardInterrupt):
        train(config, fallen, Interrupts(10, times=2))
    assert newest(fallen).name == "checkpoint-9"
    train(config, fallen)
    assert_same_run(fallen, unbroken("graddrop"))


def flip(file: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def command(config: RunConfig, folder: Path) -> list[str]:
    """The command line that trains with a configuration."""
    given = {name: value for name, value in config.record().items() if value not in (None, True, False)}
    flags = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "gradgate", "train", *flags, "--out", str(folder), "--quiet"]


def await_step(process: subprocess.Popen[bytes], folder: Path, step: int) -> None:
    """Look at the history until it has a step; fail if the process ends before."""
    while not any(line["step"] >= step for line in read_whole_lines(folder)):
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"ended with {process.wait(timeout=0.02)} before step {step}")


def read_whole_lines(folder: Path) -> list[dict[str, Any]]:
    file = folder / "history.jsonl"
    text = file.read_text() if file.is_file() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_is_killed_three_times_ends_as_if_unbroken(
    settings: dict[str, Any], method: str, tmp_path: Path
) -> None:
    config = config_of(settings, method=method, steps=60, save_every=7)
    for step in (5, 23, 44):
        process = subprocess.Popen(command(config, tmp_path / "run"))
        await_step(process, tmp_path / "run", step)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "run/scores.json").exists()
    # What the last kill would leave if it came while a checkpoint was written.
    half = tmp_path / "run/checkpoints/checkpoint-999"
    shutil.copytree(newest(tmp_path / "run"), half)
    (half / "seal.json").unlink(missing_ok=True)
    subprocess.run(command(config, tmp_path / "run"), check=True)
    subprocess.run(command(config, tmp_path / "unbroken"), check=True)
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_asked_to_stop_saves_and_goes_on(
    settings: dict[str, Any], number: signal.Signals, tmp_path: Path
) -> None:
    config = config_of(settings, steps=60, save_every=50)
    process = subprocess.Popen(command(config, tmp_path / "run"), stderr=subprocess.PIPE)
    await_step(process, tmp_path / "run", 5)
    process.send_signal(number)
    assert process.stderr is not None
    told = process.stderr.read().decode()
    assert process.wait() == 130
    assert "of 60; the state is saved" in told
    assert "Run the same command again to resume." in told
    assert "Traceback" not in told
    subprocess.run(command(config, tmp_path / "run"), check=True)
    subprocess.run(command(config, tmp_path / "unbroken"), check=True)
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")
