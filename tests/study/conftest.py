"""The queue of a study, as several processes would open it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradgate.settings.budget import Budget
from gradgate.settings.run import make_config
from gradgate.study.compare import compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.store import Heartbeat, open_store
from support.queues import Opened
from support.trained_here import trained_here

RACED = ("full", "head", "gradual:every=4")


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


@pytest.fixture(scope="session")
def raced(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six tenths of a grid of three methods with two seeds, 16 steps each; no run is finished. Copy it to change it."""
    folder = tmp_path_factory.mktemp("raced") / "study"
    base = make_config(**settings | {"steps": 16, "eval_every": 8, "threads": 1})
    with trained_here():
        compare(StudyRequest(base, RACED, (0, 1), budget=Budget(share=0.6)), folder, SilentStudy())
    return folder


@pytest.fixture
def here() -> Iterator[None]:
    """The runs of this test's studies are trained in its own process."""
    with trained_here():
        yield
