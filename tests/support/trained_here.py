"""Train the runs of a study in this process: what a process of its own adds is tested apart, and takes longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import Failure, write_record
from gradgate.runs.state import RunState
from gradgate.settings.run import RunConfig
from gradgate.training.run import train


@contextmanager
def trained_here() -> Iterator[None]:
    """Let one worker train its runs here. Two would share one state of the random numbers; none can be interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradgate.study.workers.worker.run_in_process", _train)
        yield


def _train(
    config: dict[str, Any],
    folder: RunFolder,
    cache: Path,
    progress: RunProgress,
    stop: object,
    kill: object,
    until: int | None,
    slot: int,
) -> tuple[RunState, str]:
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.error_file.unlink(missing_ok=True)
        train(RunConfig(**config), folder.path, progress, cache=cache, until=until)
    except Exception as error:
        with suppress(RunError):
            write_record(folder.error_file, Failure(type(error).__name__, str(error)))
        return RunState.FAILED, str(error)
    return (RunState.FINISHED if folder.finished else RunState.PAUSED), ""
