"""Find the finished runs that an analysis takes: one run, several, or those of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradgate.errors import RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import RunRecord, read_record
from gradgate.runs.state import RunState
from gradgate.settings.recorded import arm_of_texts
from gradgate.study.conditions import condition_folders, read_conditions
from gradgate.study.results import read_study
from gradgate.study.run_result import RunResult
from gradgate.study.study_file import STUDY_FILE


@dataclass(frozen=True)
class RunGroup:
    """Runs that share a figure: those of a study of one task and model, or single ones.

    Attributes:
        folder: of the study or the run, where the analysis is kept.
        runs: arm by arm.
        part: the name of its folder among the parts of a study of several tasks or models.
    """

    folder: Path
    runs: tuple[RunResult, ...]
    part: str = ""

    @property
    def arms(self) -> list[str]:
        """The names of the arms, in order."""
        return list(dict.fromkeys(run.arm.name for run in self.runs))


def find_runs(paths: Sequence[Path], note: Callable[[str], None]) -> list[RunGroup]:
    """Find the runs of a study, one group per part; or the named single runs, as one group.

    Args:
        paths: one study, or one or more runs.
        note: called with what is left out.

    Raises:
        UsageError: for a study together with others, or two runs of one arm and seed.
        RunError: for a folder that holds neither, one that is damaged, or one without a run that kept its model.
    """
    studies = [path for path in paths if (path / STUDY_FILE).is_file() or read_conditions(path) is not None]
    if studies and len(paths) > 1:
        raise UsageError(
            f"{studies[0]} is a study, and {len(paths)} folders were named; expected one study, or one or more runs. "
            f"Name the study alone."
        )
    if not studies:
        return [RunGroup(paths[0], _distinct([_single(path) for path in paths]))]
    parts = condition_folders(paths[0])
    return [_of_study(part, "" if part == paths[0] else part.name, note) for part in parts]


def run_folder(path: Path) -> RunFolder:
    """Return the folder of a run that has begun; RunError if there is none."""
    folder = RunFolder(path)
    if not folder.run_file.is_file():
        raise RunError(
            f"{path} holds neither a run nor a study: expected {folder.run_file.name} or {STUDY_FILE} there. Name a "
            f"folder that 'gradgate train' or 'gradgate compare' made."
        )
    return folder


def _single(path: Path) -> RunResult:
    folder = run_folder(path)
    folder.require_finished()
    record = read_record(folder.run_file, RunRecord)
    return RunResult(arm_of_texts(record.method, record.adapter), record.seed, RunState.FINISHED, path)


def _distinct(runs: list[RunResult]) -> tuple[RunResult, ...]:
    found: dict[tuple[str, int], RunResult] = {}
    for run in runs:
        other = found.setdefault((run.arm.name, run.seed), run)
        if other is not run:
            raise UsageError(
                f"{other.folder} and {run.folder} are both {run.arm.name} with seed {run.seed}; expected runs that "
                f"differ in one of these. Leave one out."
            )
    return tuple(runs)


def _of_study(folder: Path, part: str, note: Callable[[str], None]) -> RunGroup:
    results = read_study(folder)
    for problem in results.problems:
        note(problem)
    runs = []
    for cell in results.cells:
        name = f"{cell.arm.name} with seed {cell.seed}"
        if cell.folder is None or cell.scores is None:
            reason = f"failed: {cell.failure.message}" if cell.failure else "has not finished."
            note(f"Left out: {name} {reason}")
        elif not RunFolder(cell.folder).model.is_dir():
            note(f"Left out: {name} kept no model. Train with keep_model=True.")
        else:
            runs.append(cell)
    if not runs:
        raise RunError(
            f"No run of the study in {folder} has finished and kept its model; expected one or more. Let it finish "
            f"('gradgate study status {folder}'), with keep_model=True."
        )
    return RunGroup(folder, tuple(runs), part)
