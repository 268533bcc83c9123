"""Define the result of one run of a study, trained or imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradgate.errors import RunError
from gradgate.files import digest
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import DevRecord, EpochScores
from gradgate.runs.records import DEV, Failure
from gradgate.runs.scores import Metrics, Scores
from gradgate.runs.state import Progress, RunState
from gradgate.settings.arms.arm import Arm


@dataclass(frozen=True)
class RunResult:
    """The results of one method with one seed, on an adapter or on the model itself.

    ``progress`` is how far a finished or paused one is; only a finished one has ``scores``, and only a failed one
    ``failure``. ``part`` names its part of pooled results.
    ``history`` has the evaluations on dev, ``losses`` steps with the mean training loss up to them, ``test_history``
    the evaluations on test splits, which selected nothing.
    """

    arm: Arm
    seed: int
    state: RunState = RunState.MISSING
    folder: Path | None = None
    scores: Scores | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    history: tuple[DevRecord, ...] = ()
    losses: tuple[tuple[int, float], ...] = ()
    test_history: tuple[EpochScores, ...] = ()
    versions: dict[str, Any] = field(default_factory=dict)
    part: str = ""

    @property
    def paused(self) -> Progress | None:
        """The progress of a paused run; None for others."""
        return self.progress if self.state is RunState.PAUSED else None

    @property
    def files(self) -> RunFolder:
        """The folder of the run; RunError for an imported one, which has none."""
        if self.folder is None:
            raise RunError(
                f"{self.arm.name} with seed {self.seed} has no folder; expected a trained run. Imported results "
                "have scores only."
            )
        return RunFolder(self.folder)

    @property
    def mark(self) -> str:
        """A mark that differs if the run was trained again."""
        return digest(self.files.scores_file)[:12]

    def metrics(self, split: str) -> Metrics:
        """Return all metrics on ``"dev"``, a test split or an average; empty if it has none or has not finished."""
        if self.scores is None:
            return {}
        return self.scores.dev if split == DEV else {**self.scores.averages, **self.scores.tests}.get(split, {})

    def score(self, split: str) -> float | None:
        """Return the study's metric on a split, or None."""
        return None if self.scores is None else self.metrics(split).get(self.scores.metric)


NO_HISTORY: dict[str, Any] = {"progress": None, "history": (), "losses": (), "test_history": ()}
"""The fields of a result of several runs, or of none, that only a single run has."""
