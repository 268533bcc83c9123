"""The queue of a study on a PostgreSQL server, as several machines would use it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gradgate.settings.run import make_config
from gradgate.study.grid import Grid
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.queued_run import this_worker
from gradgate.study.workers.store import open_store
from support.arms import arms
from support.postgres import running_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as made:
        yield made.url


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
