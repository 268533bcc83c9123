"""Workers and their PostgreSQL server are killed: every run ends once, and the password is written nowhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "q7-Xv_unlikely"
ARMS = ["head", "freeze:layers=2", "bitfit"]
SEEDS = 20
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not (shutil.which("initdb") and shutil.which("pg_ctl")), reason="no PostgreSQL server"),
]


@dataclass
class Server:
    """A PostgreSQL server on a port of this machine, which asks for a password."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://gate:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def run(self, *words: str) -> None:
        who: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}  # the server refuses root
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/", **who)

    def create(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody")
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        self.run("initdb", "-D", self.data, "-U", "gate", "--auth=scram-sha-256", f"--pwfile={secret}")
        secret.unlink()

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self.run("pg_ctl", "-D", self.data, "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:  # other users may enter it, unlike pytest's folders
        made = Server(Path(folder), port)
        made.create()
        made.start()
        yield made
        made.kill()


class Workers:
    """Processes that train the study, each with a log of its own."""

    def __init__(self, study: Path, url: str) -> None:
        self._study, self._logs = study, study.parent / "logs"
        self._environment = {**os.environ, "GRADGATE_QUEUE": url, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self._logs.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._logs / f"{len(self.processes)}.txt").open("wb") as log:
            command = [sys.executable, "-m", "gradgate", *words]
            self.processes.append(
                subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, cwd=self._study.parent)
            )
        return self.processes[-1]

    def fill(self) -> subprocess.Popen[bytes]:
        arms = [word for arm in ARMS for word in ("-m", arm)]
        return self.start(
            "compare", *arms, "--seeds", str(SEEDS), "--steps", "6", "--eval-every", "3", "--train-size", "48",
            "--languages", "en", "--max-length", "24", "--batch-size", "4", "--threads", "1", "--grace", "5",
            "--out", str(self._study),
        )  # fmt: skip

    def help(self) -> subprocess.Popen[bytes]:
        return self.start("worker", str(self._study))

    def finished(self) -> int:
        return sum(1 for _ in self._study.glob("runs/*/*/scores.json"))

    def wait(self, until: Callable[[], bool]) -> None:
        for _ in range(6000):
            if until():
                return
            assert self._anyone_alive(), self.logs()
            time.sleep(0.1)
        raise AssertionError(self.logs())

    def _anyone_alive(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def logs(self) -> str:
        return "\n".join(file.read_text(errors="replace")[-600:] for file in sorted(self._logs.glob("*.txt")))

    def command_lines(self) -> bytes:
        found = (Path(f"/proc/{process.pid}/cmdline") for process in self.processes if process.poll() is None)
        return b"".join(file.read_bytes() for file in found if file.exists())

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
    workers.fill()
    workers.wait(lambda: (tmp_path / "study" / "study.json").exists())
    helpers = [workers.help() for _ in range(7)]
    workers.wait(lambda: workers.finished() >= 5)
    listed = workers.command_lines()
    for process in helpers[:3]:
        process.send_signal(signal.SIGKILL)
    workers.wait(lambda: workers.finished() >= 15)
    server.kill()
    for process in workers.processes:
        process.wait(timeout=300)  # without their queue, workers save their runs and stop
    before = {file: file.read_bytes() for file in tmp_path.glob("study/runs/*/*/scores.json")}
    assert len(before) < len(ARMS) * SEEDS
    server.start()
    last = workers.fill()
    for _ in range(7):
        workers.help()
    assert last.wait(timeout=1200) == 0, workers.logs()

    results = {file: file.read_bytes() for file in tmp_path.glob("study/runs/*/*/scores.json")}
    assert len(results) == len(ARMS) * SEEDS
    assert {file: results[file] for file in before} == before  # nothing that had ended was trained again
    environment = {**os.environ, "GRADGATE_QUEUE": server.url}
    status = subprocess.run(
        [sys.executable, "-m", "gradgate", "study", "status", str(tmp_path / "study"), "--json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert PASSWORD not in status.stdout + status.stderr
    assert json.loads(status.stdout)["finished"] == len(ARMS) * SEEDS
    assert PASSWORD.encode() not in listed + workers.command_lines()
    written = (file for file in tmp_path.rglob("*") if file.is_file())
    assert [file for file in written if PASSWORD.encode() in file.read_bytes()] == []
