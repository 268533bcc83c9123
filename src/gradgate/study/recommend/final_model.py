"""Train the model that a recommendation ends with: a run of the arm that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradgate.runs.folder import CACHE_FOLDER, RunFolder
from gradgate.runs.pauses import read_progress
from gradgate.runs.scores import Scores
from gradgate.study.best_run import recommended_arm
from gradgate.study.budget.observe import observe
from gradgate.study.budget.verdict import BudgetVerdict
from gradgate.study.grid import Grid, GridRun
from gradgate.study.guessing import guessing_score
from gradgate.study.progress import StudyProgress
from gradgate.study.recommend.clock import RaceClock
from gradgate.study.results import read_study
from gradgate.study.status import read_status
from gradgate.study.workers.worker import counts


@dataclass(frozen=True)
class FinalModel:
    """A finished run with its scores.

    Attributes:
        folder: of the run.
        arm: that it trained.
        seed: of the run.
        scores: on dev and test, and what it cost.
        guessing: the score, on its first test split, of always answering with the most frequent class of train; None if
            unknown.
    """

    folder: Path
    arm: str
    seed: int
    scores: Scores
    guessing: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the run kept its model, which ``keep_model=False`` does not."""
        return RunFolder(self.folder).model.is_dir()

    @property
    def said(self) -> str:
        """The scores of the model in a sentence."""
        scores = self.scores
        tests = ", ".join(f"{values[scores.metric]:.4g} on {split}" for split, values in scores.tests.items())
        found = f"{scores.metric} {scores.dev[scores.metric]:.4g} on dev{', ' if tests else ''}{tests}"
        return f"{self.arm} with seed {self.seed}: {found}"

    @property
    def warning(self) -> str | None:
        """Advice if the model has learned no more than which class is the most frequent; None otherwise."""
        scores, guessing = self.scores, self.guessing
        split, found = next(iter(scores.tests.items()), ("", {}))
        score = found.get(scores.metric)
        if guessing is None or score is None or score > guessing:
            return None
        return (
            f"Always answering with the most frequent class scores {guessing:.4g} on {split}, so the model has not "
            "learned enough. Pass more minutes=, or a larger steps=."
        )


def find_final(study: Path, arm: str) -> FinalModel | None:
    """Return the finished run of an arm with the best score on dev; None without a finished one."""
    results = read_study(study)
    best = results.best_on_dev(results.of(arm))
    if best is None or best.scores is None or best.folder is None:
        return None
    split = next(iter(best.scores.tests), None)
    guessing = None if split is None else guessing_score(results, split)
    return FinalModel(best.folder, arm, best.seed, best.scores, guessing)


def train_finals(study: Path, verdict: BudgetVerdict, clock: RaceClock, progress: StudyProgress) -> None:
    """Train a model of the arm that a verdict recommends.

    Without a test, the arms that may be the best are trained in full, in the order of their means on dev, as far as
    the time allows.

    Raises:
        GradgateError: if a run fails.
        InterruptedRunError: when Ctrl-C stopped it after saving.
    """
    for arm in () if verdict.tested else verdict.winners:
        if find_final(study, arm) is None and clock.can_finish(arm, observe([read_study(study)])):
            train_final(study, arm, progress)
    chosen = recommended_arm(study, verdict)
    assert chosen is not None, "a study without an arm left is refused before"
    train_final(study, chosen, progress)


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
        progress.count(counts(read_status(study).runs))  # it had been counted as paused
        found = find_final(study, arm)
    assert found is not None, "a run that ends without an error has finished"
    return found


def _runs_of(study: Path, arm: str) -> list[GridRun]:
    grid = Grid.read(study)
    return grid.runs_of(each for each in grid.arms if each.name == arm)


def _steps_done(folder: RunFolder) -> int:
    reached = read_progress(folder) if folder.path.is_dir() else None
    return 0 if reached is None else reached.step
