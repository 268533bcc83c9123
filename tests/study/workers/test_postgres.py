"""The queue of a study on a PostgreSQL server, as several machines would use it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gradgate.settings.run import make_config
from gradgate.study.grid import Grid
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.queued_run import this_worker
from gradgate.study.workers.store import open_store
from support.arms import arms

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("initdb") and shutil.which("pg_ctl")), reason="no PostgreSQL server"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that listens on a socket file alone."""
    pytest.importorskip("psycopg")
    folder = tmp_path_factory.mktemp("postgres")
    who: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses root
        who = {"user": "nobody"}
        shutil.chown(folder, "nobody")
        for parent in list(folder.parents)[:3]:
            parent.chmod(parent.stat().st_mode | 0o111)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    run = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/", **who}
    subprocess.run(["initdb", "-D", folder / "data", "-U", "gate", "--auth=trust"], **run)
    start = ["pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log", "-o", options, "start"]
    subprocess.run(start, **run)
    yield f"postgresql+psycopg://gate@/postgres?host={folder}"
    subprocess.run(["pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"], **run)


def test_workers_that_add_and_claim_at_once_share_the_runs(server: str, tmp_path: Path) -> None:
    grid = Grid(tmp_path / "study", make_config(), tuple(arms(["full", "head"])), tuple(range(8)))

    def work(slot: int) -> list[str]:
        queue = Queue(open_store(grid.path, server))
        queue.add(grid.runs())
        claimed = []
        while run := queue.claim(this_worker(slot)):
            queue.beat(run, {"step": 1, "total": 2, "loss": 0.5})
            claimed.append(run.fingerprint)
        queue.store.close()
        return claimed

    with ThreadPoolExecutor(4) as pool:
        claimed = [fingerprint for part in pool.map(work, range(4)) for fingerprint in part]
    assert sorted(claimed) == sorted(run.config.fingerprint() for run in grid.runs())
    queue = Queue(open_store(grid.path, server))  # the name in the database is in the study's folder
    assert {run.state for run in queue.runs()} == {"running"}
    queue.store.close()
    other = open_store(tmp_path / "other", server)
    assert Queue(other).runs() == []
    other.close()
