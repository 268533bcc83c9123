"""Workers and their PostgreSQL server are killed: every run ends once, and the password is written nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from support.postgres import PASSWORD, Server, running_server

ARMS = ["head", "freeze:layers=2", "bitfit"]
SEEDS = 20
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as made:
        yield made


class Workers:
    """Processes that train the study, each with a log of its own."""

    def __init__(self, study: Path, url: str) -> None:
        self._study, self._logs = study, study.parent / "logs"
        self.environment = {**os.environ, "GRADGATE_QUEUE": url, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self._logs.mkdir()
        self.processes: list[subprocess.Popen[str]] = []

    def fill(self) -> subprocess.Popen[str]:
        """Start the command that fills the queue and trains; its lines are to be read."""
        arms = [word for arm in ARMS for word in ("-m", arm)]
        return self._start(
            subprocess.PIPE, "compare", *arms, "--seeds", str(SEEDS), "--steps", "6", "--eval-every", "3",
            "--train-size", "48", "--languages", "en", "--max-length", "24", "--batch-size", "4", "--threads", "1",
            "--grace", "5", "--out", str(self._study),
        )  # fmt: skip

    def help(self) -> subprocess.Popen[str]:
        with (self._logs / f"{len(self.processes)}.txt").open("w") as log:
            return self._start(log, "worker", str(self._study))

    def _start(self, log: int | IO[str], *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gradgate", *words]
        place = {"cwd": self._study.parent, "env": self.environment}
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True, **place))
        return self.processes[-1]

    def read(self, filler: subprocess.Popen[str], runs: int | None = None) -> None:
        """Read what a process says until it has trained some runs itself, or to its end, and keep it."""
        assert filler.stdout is not None
        with (self._logs / f"filler-{filler.pid}.txt").open("a") as log:
            for line in filler.stdout:
                log.write(line)
                if runs is not None and line.startswith("done") and (runs := runs - 1) == 0:
                    return

    def command_lines(self) -> bytes:
        alive = (process.pid for process in self.processes if process.poll() is None)
        return b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in alive)

    def scores(self) -> dict[Path, bytes]:
        """Return the scores of the runs that have ended."""
        return {file: file.read_bytes() for file in self._study.glob("runs/*/*/scores.json")}

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def workers(tmp_path: Path, server: Server) -> Iterator[Workers]:
    made = Workers(tmp_path / "study", server.url)
    yield made
    made.stop()


def test_sixty_runs_end_once_though_workers_and_the_server_are_killed(
    tmp_path: Path, server: Server, workers: Workers
) -> None:
    first = workers.fill()
    workers.read(first, runs=1)
    helpers = [workers.help() for _ in range(7)]
    workers.read(first, runs=4)
    listed = workers.command_lines()
    for process in helpers[:3]:
        process.kill()
    workers.read(first, runs=2)
    server.kill()
    workers.read(first)
    for process in workers.processes:
        process.wait(timeout=300)  # without their queue, workers save their runs and stop
    before = workers.scores()
    assert len(before) < len(ARMS) * SEEDS
    server.start()
    last = workers.fill()
    for _ in range(7):
        workers.help()
    listed += workers.command_lines()
    workers.read(last)
    assert last.wait(timeout=300) == 0

    scores = workers.scores()
    assert len(scores) == len(ARMS) * SEEDS
    assert {file: scores[file] for file in before} == before  # nothing that had ended was trained again
    status = subprocess.run(
        [sys.executable, "-m", "gradgate", "study", "status", str(tmp_path / "study"), "--json"],
        env=workers.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert PASSWORD not in status.stdout + status.stderr
    assert json.loads(status.stdout)["finished"] == len(ARMS) * SEEDS
    assert PASSWORD.encode() not in listed
    written = (file for file in tmp_path.rglob("*") if file.is_file())
    assert [file for file in written if PASSWORD.encode() in file.read_bytes()] == []
