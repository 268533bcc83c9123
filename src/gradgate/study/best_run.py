"""Find the run of a study whose model people use: the best on dev of the arm that the study names best."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from gradgate.errors import RunError, UsageError
from gradgate.places import typed_path
from gradgate.runs.folder import RunFolder
from gradgate.study.budget.verdict import BudgetVerdict
from gradgate.study.conditions import read_conditions
from gradgate.study.imported import refuse_without_models
from gradgate.study.results import StudyResults, read_study
from gradgate.study.run_result import RunResult
from gradgate.study.study_file import STUDY_FILE
from gradgate.tasks.types import DEV


@dataclass(frozen=True)
class ChosenRun:
    """A run with a model.

    Attributes:
        folder: of the run.
        why: a sentence that names it, if it was chosen from a study; else empty.
    """

    folder: RunFolder
    why: str = ""


def best_run(path: Path) -> ChosenRun:
    """Return the run in a folder, or the best run of a study.

    The arm that a budget recommends comes first, see :func:`recommended_arm`. Without one it is the arm with the best
    mean score on dev, over the seeds that all arms have. Of its runs, the one with the best score on dev is taken.

    Raises:
        UsageError: for a study of several tasks or models, which has no best run, or imported results.
        RunError: for a folder that holds neither, a run that has not finished or kept no model, or a study without one.
    """
    path = typed_path(path)
    if (path / STUDY_FILE).is_file():
        return _of_study(path)
    if read_conditions(path) is not None:
        raise UsageError(
            f"{path} compares several tasks or models, each with its own best run. Name a run, or the study of "
            f"one task and model in {path}."
        )
    folder = RunFolder(path)
    folder.require_finished()
    return ChosenRun(folder)


def _of_study(path: Path) -> ChosenRun:
    from gradgate.study.budget.file import read_budget

    refuse_without_models(path)
    results = read_study(path)
    runs = [
        run
        for run in results.runs
        if run.score(DEV) is not None and run.folder is not None and run.files.model.is_dir()
    ]
    if not runs:
        raise RunError(
            f"No run of the study in {path} has finished and kept its model; expected one or more. Let it finish "
            f"('gradgate study status {path}'), with keep_model=True."
        )
    budget = read_budget(path)
    recommended = None if budget is None else recommended_arm(path, budget.verdict)
    arm = recommended if any(run.arm.name == recommended for run in runs) else _best_arm(results, runs)
    best = results.best_on_dev(run for run in runs if run.arm.name == arm)
    assert best is not None, "runs without a score on dev were left out"
    task = results.study.task
    why = (
        f"The best run of {path} is {arm} with seed {best.seed}, {task.metric} {best.score(DEV):.4f} on dev: "
        f"{best.files.path}"
    )
    return ChosenRun(best.files, why)


def recommended_arm(path: Path, verdict: BudgetVerdict) -> str | None:
    """Return the arm that the verdict of a study recommends: the winner, or the cheapest of a tie.

    Without a test, early scores are all that is known of most arms, so the arm of the finished run with the best score
    on dev comes before the cheapest. None if no arm is left.
    """
    if verdict.tested or not (path / STUDY_FILE).is_file():
        return verdict.recommended
    results = read_study(path)
    best = results.best_on_dev(run for arm in verdict.winners for run in results.of(arm))
    return verdict.recommended if best is None else best.arm.name


def _best_arm(results: StudyResults, runs: list[RunResult]) -> str:
    """Return the arm with the best mean on dev: over common seeds, or over all if the arms share none."""
    arms = dict.fromkeys(run.arm.name for run in runs)
    scores = {
        arm: {run.seed: score for run in results.of(arm) if (score := run.score(DEV)) is not None} for arm in arms
    }
    shared = set[int]().union(*scores.values()).intersection(*scores.values())
    pick = max if results.study.task.metric_higher_is_better else min
    return pick(scores, key=lambda arm: fmean(scores[arm][seed] for seed in shared or scores[arm]))
