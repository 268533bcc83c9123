"""Train the model that a recommendation ends with: a run of the arm that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradgate.runs.folder import CACHE_FOLDER, RunFolder
from gradgate.runs.pauses import read_progress
from gradgate.runs.scores import Scores
from gradgate.study.grid import Grid, GridRun
from gradgate.study.progress import StudyProgress
from gradgate.study.results import read_study


@dataclass(frozen=True)
class FinalModel:
    """A finished run with its scores.

    Attributes:
        folder: of the run.
        arm: that it trained.
        seed: of the run.
        scores: on dev and test, and what it cost.
    """

    folder: Path
    arm: str
    seed: int
    scores: Scores

    @property
    def is_kept(self) -> bool:
        """Whether the run kept its model, which ``keep_model=False`` does not."""
        return RunFolder(self.folder).model.is_dir()

    @property
    def said(self) -> str:
        """Its scores in a sentence."""
        scores = self.scores
        tests = ", ".join(f"{values[scores.metric]:.4g} on {split}" for split, values in scores.tests.items())
        found = f"{scores.metric} {scores.dev[scores.metric]:.4g} on dev{', ' if tests else ''}{tests}"
        return f"{self.arm} with seed {self.seed}: {found}"


def find_final(study: Path, arm: str) -> FinalModel | None:
    """Return the finished run of an arm with the best score on dev; None without a finished one."""
    results = read_study(study)
    best = results.best_on_dev(results.of(arm))
    if best is None or best.scores is None or best.folder is None:
        return None
    return FinalModel(best.folder, arm, best.seed, best.scores)


def train_final(study: Path, arm: str, progress: StudyProgress) -> FinalModel:
    """Return the best finished run of an arm, after the one that is furthest has been trained to its end if need be.

    Args:
        study: folder of the study.
        arm: its name.
        progress: is called for the run.

    Raises:
        GradgateError: if the run fails.
        InterruptedRunError: when Ctrl-C stopped it after saving.
    """
    from gradgate.training.run import train  # imports torch

    found = find_final(study, arm)
    if found is None:
        run = max(_runs_of(study, arm), key=lambda run: _steps_done(run.folder))
        shown = progress.begin_run(run.label)
        train(run.config, run.folder.path, shown, cache=study / CACHE_FOLDER)
        progress.end_run(run.label, "trained in full", failed=False)
        found = find_final(study, arm)
    assert found is not None, "a run that ends without an error has finished"
    return found


def _runs_of(study: Path, arm: str) -> list[GridRun]:
    grid = Grid.read(study)
    return grid.runs_of(each for each in grid.arms if each.name == arm)


def _steps_done(folder: RunFolder) -> int:
    reached = read_progress(folder) if folder.path.is_dir() else None
    return 0 if reached is None else reached.step
