"""Runs that other machines train are shown by what the queue says of them."""

from __future__ import annotations

import io
from pathlib import Path

from gradgate.console import PlainConsole
from gradgate.study.progress import StudyBars
from gradgate.study.workers.queued_run import this_worker
from gradgate.study.workers.ray import _RemoteProgress
from support.queues import Opened, finish, runs


def test_a_run_that_ends_is_counted_once(opened: Opened, tmp_path: Path) -> None:
    queue, planned, said = opened(), runs(tmp_path, seeds=2), io.StringIO()
    queue.add(planned)
    with StudyBars(PlainConsole(file=said, width=100)) as bars:
        bars.begin_study(len(planned), 0)
        remote = _RemoteProgress(bars, queue)
        for run in planned:
            claimed = queue.claim(this_worker(0))
            assert claimed is not None
            remote.update(queue.runs())
            finish(run)
            queue.finish(claimed)
        remote.update(queue.runs())
    assert said.getvalue().count("done") == len(planned)
    assert f"{len(planned)}/{len(planned)} runs" in said.getvalue().splitlines()[-1]
