"""Find the finished runs that an analysis takes: one run, several, or those of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gradgate.errors import RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import RunRecord, read_record
from gradgate.runs.state import RunState
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.study.conditions import condition_folders, is_study
from gradgate.study.imported import refuse_without_models
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


class MeasuredRow(Protocol):
    """A row of an analysis; ``run`` is the mark of its run."""

    @property
    def arm(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def run(self) -> str: ...


class AnalyzedRuns:
    """Tells the rows of the runs that are analyzed from those of others in the same folder."""

    def __init__(self, runs: Sequence[RunResult]) -> None:
        self._marks = {(run.arm.name, run.seed): run.mark for run in runs}

    def have(self, row: MeasuredRow) -> bool:
        """Return True for a row of one of these runs."""
        return self._marks.get((row.arm, row.seed)) == row.run

    def supersede(self, row: MeasuredRow) -> bool:
        """Return True for a row of an arm and seed that has been trained again."""
        return (row.arm, row.seed) in self._marks and not self.have(row)


def find_runs(paths: Sequence[Path], note: Callable[[str], None]) -> list[RunGroup]:
    """Find the runs of a study, one group per part; or the named single runs, as one group.

    Args:
        paths: one study, or one or more runs.
        note: called with what is left out.

    Raises:
        UsageError: for a study together with others, runs of different models or tasks, two of one arm and seed, or
            imported results.
        RunError: for a folder that holds neither, one that is damaged, or one without a run that kept its model.
    """
    parts = find_parts(paths)
    if not parts:
        return [RunGroup(paths[0], tuple(_single(path) for path in paths))]
    return [_of_study(part, name, note) for part, name in parts.items()]


def find_parts(paths: Sequence[Path]) -> dict[Path, str]:
    """Find the parts of a study, each with its name; none for single runs, which are checked to be comparable.

    A study of one task and model is its only part, and has no name.

    Raises:
        UsageError: for a study together with others, runs of different models or tasks, or two of one arm and seed.
        RunError: for a folder that holds neither, or a study of several tasks or models without one that has started.
    """
    studies = [path for path in paths if is_study(path)]
    if studies and len(paths) > 1:
        raise UsageError(
            f"{studies[0]} is a study, and {len(paths)} folders were named; expected one study, or one or more runs. "
            f"Name the study alone."
        )
    if studies:
        return {part: "" if part == paths[0] else part.name for part in condition_folders(paths[0])}
    records = [(path, read_record(run_folder(path).run_file, RunRecord)) for path in paths]
    _check_comparable(records)
    _check_distinct(records)
    return {}


def run_folder(path: Path) -> RunFolder:
    """Return the folder of a run that has begun; RunError if there is none."""
    folder = RunFolder(path)
    if not folder.run_file.is_file():
        raise RunError(
            f"{path} holds neither a run nor a study: expected {folder.run_file.name} or {STUDY_FILE} there. Name a "
            f"folder that 'gradgate train' or 'gradgate compare' made."
        )
    return folder


def _check_comparable(records: Sequence[tuple[Path, RunRecord]]) -> None:
    """Raise UsageError if two runs differ in the pretrained model, the task or the length of inputs."""
    first, start = records[0]
    for path, record in records[1:]:
        if _shared(record) != _shared(start):
            mine, theirs = (f"{each.config.get('model')} on {each.config.get('task')}" for each in (record, start))
            raise UsageError(
                f"{path} has {mine}, {first} {theirs}; expected runs of the same pretrained model, task and "
                f"max_length=. Analyze them one by one."
            )


def _shared(record: RunRecord) -> tuple[object, ...]:
    data = None if record.task is None else record.task.fingerprint
    return record.config.get("model"), data, record.config.get("max_length")


def check_same_dev(runs: Sequence[RunResult]) -> None:
    """Check that runs selected on the same rows, as one may have trained on the dev rows of another.

    Raises:
        UsageError: if ``dev_size`` drew them with different seeds.
    """
    first = _drawn_dev(runs[0])
    for run in runs[1:]:
        if _drawn_dev(run) != first:
            raise UsageError(
                f"{run.folder} and {runs[0].folder} have different dev rows, as dev_size= draws them with the "
                f"seed; expected a split that all runs share. Pass split='test', or another test split."
            )


def _drawn_dev(run: RunResult) -> tuple[int, int] | None:
    """Return how many rows of train are dev, and the seed that drew them; None for the task's own dev split."""
    record = read_record(run.files.run_file, RunRecord)
    size = record.config.get("dev_size")
    return None if size is None else (size, record.seed)


def _single(path: Path) -> RunResult:
    folder = run_folder(path)
    folder.require_finished()
    record = read_record(folder.run_file, RunRecord)
    return RunResult(arm_of_texts(record.method, record.adapter), record.seed, RunState.FINISHED, path)


def _check_distinct(records: Sequence[tuple[Path, RunRecord]]) -> None:
    """Raise UsageError if two runs have the same arm and seed."""
    found: dict[tuple[str, int], Path] = {}
    for path, record in records:
        run = arm_of_texts(record.method, record.adapter).name, record.seed
        if run in found:
            raise UsageError(
                f"{found[run]} and {path} are both {run[0]} with seed {run[1]}; expected runs that differ in one of "
                f"these. Leave one out."
            )
        found[run] = path


def _of_study(folder: Path, part: str, note: Callable[[str], None]) -> RunGroup:
    refuse_without_models(folder)
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
