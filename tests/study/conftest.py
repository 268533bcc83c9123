"""The queue of a study, as several processes would open it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradgate.study.workers.queue import Queue
from gradgate.study.workers.store import Heartbeat, open_store
from support.queues import Opened
from support.trained_here import trained_here


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without runs."""
    folder = tmp_path_factory.mktemp("empty")
    open_store(folder, heartbeat=Heartbeat(1, 30)).close()
    return folder / "study.db"


@pytest.fixture
def opened(empty: Path, tmp_path: Path) -> Iterator[Opened]:
    """Opens the queue of one study, each time as another process would."""
    queues: list[Queue] = []
    shutil.copyfile(empty, tmp_path / "study.db")

    def open_queue() -> Queue:
        queues.append(Queue(open_store(tmp_path)))
        return queues[-1]

    yield open_queue
    for queue in queues:
        queue.store.close()


@pytest.fixture
def here() -> Iterator[None]:
    """The runs of this test's studies are trained in its own process."""
    with trained_here():
        yield
