"""A Ray worker and then the driver are killed: every run ends once, each with all of its steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
ARMS = ["head", "freeze:layers=2", "bitfit"]
SEEDS, STEPS = 3, 8


class Driver:
    """The command that trains a study on a Ray of its own."""

    def __init__(self, study: Path) -> None:
        arms = [word for arm in ARMS for word in ("-m", arm)]
        words = [
            "compare", *arms, "--seeds", str(SEEDS), "--steps", str(STEPS), "--save-every", "2", "--train-size", "64",
            "--languages", "en", "--max-length", "24", "--batch-size", "4", "--threads", "1", "--grace", "5",
            "--ray", "local", "--out", str(study),
        ]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gradgate", *words], cwd=study.parent, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.children: list[psutil.Process] = []

    def read(self, runs: int | None = None) -> None:
        """Read what it says until some runs are done, or to its end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if runs is not None and line.startswith("done") and (runs := runs - 1) == 0:
                self.children = psutil.Process(self.process.pid).children(recursive=True)
                return

    def kill_worker(self) -> None:
        """Kill a process that trains, or has just trained."""
        next(child for child in self.children if child.name().startswith(("ray::train", "ray::IDLE"))).kill()

    def stop(self) -> None:
        """Kill what it has left behind."""
        for process in self.children:
            if process.is_running():
                process.kill()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    started: list[Driver] = []
    yield started
    for each in started:
        each.stop()


def test_runs_end_once_though_a_worker_and_the_driver_are_killed(tmp_path: Path, drivers: list[Driver]) -> None:
    study = tmp_path / "study"
    drivers.append(first := Driver(study))
    first.read(runs=1)
    first.kill_worker()
    first.read(runs=3)
    first.process.kill()
    before = {file: file.read_bytes() for file in study.glob("runs/*/*/scores.json")}
    assert 4 <= len(before) < len(ARMS) * SEEDS
    drivers.append(second := Driver(study))
    second.read()
    assert second.process.wait(timeout=300) == 0
    scores = {file: file.read_bytes() for file in study.glob("runs/*/*/scores.json")}
    assert len(scores) == len(ARMS) * SEEDS
    assert {file: scores[file] for file in before} == before  # nothing that had ended was trained again
    for file in scores:
        rows = map(json.loads, (file.parent / "history.jsonl").read_text().splitlines())
        assert [row["step"] for row in rows if row["split"] == "train"] == list(range(1, STEPS + 1))
