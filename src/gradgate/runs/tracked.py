"""Read and write ``trackers.json``: the run's name in trackers, and the steps that each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from gradgate.runs.folder import RunFolder
from gradgate.runs.records import read_record, write_record


@dataclass
class SentLogs:
    """The logs that one tracker has received.

    Attributes:
        run: the tracker's own name of the run, by which it is resumed; None if the tracker needs none.
        steps: metric to the latest step that was logged.
    """

    run: str | None = None
    steps: dict[str, int] = field(default_factory=dict)

    def unsent(self, logs: Mapping[str, Any], step: int) -> dict[str, Any]:
        """Return the metrics that were not logged at this step or a later one.

        A resumed run repeats the steps after its checkpoint with the same values, so these are left out.
        """
        return {name: value for name, value in logs.items() if step > self.steps.get(name, -1)}

    def add(self, logs: Mapping[str, Any], step: int) -> None:
        """Record that metrics were logged at a step."""
        self.steps |= dict.fromkeys(logs, step)


@dataclass
class TrackersRecord:
    """The content of ``trackers.json``.

    Attributes:
        id: tells the run from others of the same settings, in trackers that many folders report to.
        trackers: name of a tracker to what it has received.
    """

    id: str = field(default_factory=lambda: uuid4().hex[:8])
    trackers: dict[str, SentLogs] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: RunFolder) -> TrackersRecord:
        """Read the record of a run, or begin one; raise RunError if the file is damaged."""
        return read_record(folder.trackers_file, cls) if folder.trackers_file.is_file() else cls()

    def write(self, folder: RunFolder) -> None:
        """Write the record; raise RunError if it cannot be written."""
        write_record(folder.trackers_file, self)
