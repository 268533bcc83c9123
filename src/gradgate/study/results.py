"""Read the results of a study from its folder, whatever the state of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from pathlib import Path

from gradgate.errors import GradgateError, RunError
from gradgate.files import remedy
from gradgate.runs.folder import RUNS_FOLDER, RunFolder
from gradgate.runs.history import History, read_history, read_history_so_far
from gradgate.runs.pauses import progress_of, read_pauses
from gradgate.runs.records import DEV, Failure, ModelRecord, RunRecord, read_record
from gradgate.runs.scores import Scores, read_scores
from gradgate.runs.state import RunState
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.study.arms import not_for
from gradgate.study.imported import ImportedCosts, ImportedScore, imported_runs, read_imported
from gradgate.study.run_result import NO_HISTORY, RunResult
from gradgate.study.study_file import StudyRecord, read_study_file
from gradgate.tasks.languages import AVERAGES, ZERO_SHOT

LANGUAGE, TASK, MODEL, SIZE, COMBINATION = "language", "task", "model", "training size", "combination"
"""Units of test splits: a language each; in pooled results a task, a model, a training size, or several of these."""


@dataclass(frozen=True)
class StudyResults:
    """A study and its runs.

    Attributes:
        cells: one result per adapter, method and seed of the study, in this order.
        test_splits: the test splits of the finished runs; those of the task before any has finished.
        averages: the averages over test splits of the finished runs.
        problems: files that could not be read and runs that do not belong, in words.
        split_unit: what a test split is: a language, or in pooled results a task, model or training size.
        parts: name and results of each part that was pooled (:mod:`gradgate.study.pooled`).
    """

    folder: Path
    study: StudyRecord
    cells: tuple[RunResult, ...]
    test_splits: tuple[str, ...]
    problems: tuple[str, ...]
    averages: tuple[str, ...] = ()
    split_unit: str = "test split"
    parts: tuple[tuple[str, StudyResults], ...] = ()

    @property
    def runs(self) -> tuple[RunResult, ...]:
        """Every run of all parts."""
        return tuple(replace(cell, part=name) for name, part in self.parts for cell in part.cells) or self.cells

    @property
    def main_split(self) -> str:
        """The split that methods are compared on: an average, ``test``, else the first test split, else dev."""
        return main_split_of(self.test_splits, self.averages)

    @property
    def devices(self) -> frozenset[str]:
        """The devices of finished runs; times on several do not compare."""
        return frozenset(run.scores.cost.device for run in self.runs if run.scores)

    def language(self, split: str) -> str:
        """Return the language of a split of a task in several languages, else the split's name."""
        return self.study.task.languages.get(split, split)

    @property
    def reference(self) -> str:
        """The name of the arm that the others are compared to: the first."""
        return self.study.arm_names[0]

    def of(self, name: str) -> tuple[RunResult, ...]:
        """Return the results of one arm, by its name, one per seed."""
        return tuple(cell for cell in self.cells if cell.arm.name == name)

    def best_on_dev(self, runs: Iterable[RunResult]) -> RunResult | None:
        """Return that of some runs with the best score on dev; None if none has one."""
        scored = [(score, run) for run in runs if (score := run.score(DEV)) is not None]
        pick = max if self.study.task.metric_higher_is_better else min
        return pick(scored, key=lambda each: each[0])[1] if scored else None

    def count(self, state: RunState) -> int:
        """Return the number of runs in a state."""
        return sum(run.state == state for run in self.runs)


def main_split_of(test_splits: tuple[str, ...], averages: tuple[str, ...]) -> str:
    """Return the split or average that methods are compared on."""
    if averages:
        return ZERO_SHOT if ZERO_SHOT in averages else averages[0]
    return "test" if "test" in test_splits else (*test_splits, DEV)[0]


def read_study(folder: Path) -> StudyResults:
    """Read a study folder, whatever the state of its runs.

    Runs are matched by the method, seed and settings in their ``run.json``. A run with a damaged file counts as failed,
    with the damage as its reason; a run that cannot be matched is left out and named in ``problems``.

    Raises:
        RunError: if ``study.json`` is absent or damaged.
    """
    study = read_study_file(folder)
    if study.imported is not None:
        return imported_results(folder, study, *read_imported(folder))
    reader = _ResultsReader(folder, study)
    cells = reader.cells()
    return _results(folder, study, cells, reader.problems)


def imported_results(
    folder: Path, study: StudyRecord, scores: Iterable[ImportedScore], costs: Iterable[ImportedCosts]
) -> StudyResults:
    """Return the results of one condition of an import, which need not be written.

    Args:
        folder: of the study, or the source of the scores.
        study: the condition.
        scores: of its runs.
        costs: of its runs.
    """
    arms = dict(zip(study.arm_names, study.arms, strict=True))
    found = imported_runs(scores, costs, arms, study.task.metric)
    known = {(result.arm, result.seed): result for result in found}
    grid = product(study.arms, study.seeds)
    return _results(folder, study, [known.get(cell, RunResult(*cell)) for cell in grid], [])


def read_run(folder: Path) -> StudyResults:
    """Read a run's folder as a study of this run alone.

    Raises:
        RunError: if it has no run that has begun, or ``run.json`` is damaged.
    """
    run = read_record(RunFolder(folder).run_file, RunRecord)
    if run.task is None:
        raise RunError(
            f"{folder} has a run that has not started training. Run the command that started the study again."
        )
    config, parameters = run.config, run.model.get("parameters", 0)
    study = StudyRecord(
        task=run.task,
        model=ModelRecord(str(config["model"]), int(parameters)),
        methods=(run.method,),
        seeds=(run.seed,),
        settings={name: value for name, value in config.items() if name not in ("method", "adapter", "seed")},
        versions=run.versions,
        adapters=(run.adapter,),
    )
    cell = RunResult(study.arms[0], run.seed, versions=run.versions)
    return _results(folder, study, [_read_cell(RunFolder(folder), cell)], [])


def _results(folder: Path, study: StudyRecord, cells: list[RunResult], found: list[str]) -> StudyResults:
    """Return the results of some runs; ``found`` are problems of reading them."""
    finished = [cell.scores for cell in cells if cell.scores]
    splits = tuple(dict.fromkeys(split for scores in finished for split in scores.tests))
    if not finished:
        splits = tuple(split for split in study.task.rows if split not in ("train", DEV))
    averages = tuple(name for name in AVERAGES if any(name in scores.averages for scores in finished))
    cells = [_check_score(cell, study.task.metric, main_split_of(splits, averages)) for cell in cells]
    problems = (*found, *_differences(cells))
    by_language = splits and all(split in study.task.languages for split in splits)
    unit = LANGUAGE if by_language else "test split"
    return StudyResults(folder, study, tuple(cells), splits, problems, averages, unit)


class _ResultsReader:
    """Reads the runs of a study folder, and collects what is wrong with them."""

    def __init__(self, folder: Path, study: StudyRecord) -> None:
        self.folder = folder
        self.study = study
        self.problems: list[str] = []
        self._matcher = _Matcher(study)
        self._found: dict[tuple[Arm, int], RunResult] = {}

    def cells(self) -> list[RunResult]:
        """Return one result per arm and seed of the study."""
        damaged = self._read_begun()
        for arm, seed in product(self.study.arms, self.study.seeds):
            if (arm, seed) not in self._found:
                path = self.folder / RUNS_FOLDER / arm.folder / f"seed-{seed}"
                self._found[arm, seed] = self._unmatched(arm, seed, path, damaged.pop(path, None))
        self.problems += [f"{self._relative(path)} is left out: {reason}" for path, reason in damaged.items()]
        return [self._found[arm, seed] for arm, seed in product(self.study.arms, self.study.seeds)]

    def _read_begun(self) -> dict[Path, str]:
        """Read every run with a ``run.json``. Return the folders where that file is damaged, and how."""
        damaged: dict[Path, str] = {}
        for path in sorted(file.parent for file in self.folder.glob("runs/*/seed-*/run.json")):
            try:
                run = read_record(RunFolder(path).run_file, RunRecord)
            except (GradgateError, OSError) as error:
                damaged[path] = str(error)
                continue
            arm = self._matcher.find(run, path.parent.name)
            if arm is None or run.seed not in self.study.seeds:
                own = self._matcher.arm_of(run).name
                self._leave_out(path, f"{own} with seed {run.seed} is not part of this study.")
            elif (arm, run.seed) in self._found:
                other = self._found[arm, run.seed].folder
                self._leave_out(path, f"{other} holds the same method and seed.")
            else:
                result = RunResult(arm, run.seed, versions=run.versions)
                self._found[arm, run.seed] = _read_cell(RunFolder(path), result)
        return damaged

    def _unmatched(self, arm: Arm, seed: int, path: Path, damage: str | None) -> RunResult:
        """Return the result of a run without a ``run.json`` that says so."""
        cell = RunResult(arm, seed)
        if damage is not None:
            return replace(cell, state=RunState.FAILED, folder=path, failure=Failure("RunError", damage))
        if RunFolder(path).error_file.is_file() and not RunFolder(path).run_file.is_file():
            return _read_cell(RunFolder(path), cell)  # it failed before it could write its configuration
        return cell

    def _leave_out(self, path: Path, reason: str) -> None:
        self.problems.append(f"{self._relative(path)} is left out: {reason}")

    def _relative(self, path: Path) -> Path:
        return path.relative_to(self.folder)


class _Matcher:
    """Finds the arm of a run in a study."""

    def __init__(self, study: StudyRecord) -> None:
        # Most runs are written as the study is: their texts need not be parsed again.
        self._known = {(arm.method.text, arm.adapter and arm.adapter.text): arm for arm in study.arms}
        self._names = tuple(dict.fromkeys(name for arm in study.arms for name in arm.overrides))
        self._arms: dict[Arm, list[Arm]] = {}
        for arm in study.arms:
            shared = {**study.settings, **not_for(arm, study.arms, arm.overrides)}
            own = {name: arm.overrides.get(name, shared.get(name)) for name in self._names}
            self._arms.setdefault(Arm(arm.method, arm.adapter, own), []).append(arm)

    def arm_of(self, run: RunRecord) -> Arm:
        """Return what a run trains, with its values of the settings that are arms in this study."""
        texts = run.method, run.adapter
        if texts not in self._known:
            self._known[texts] = arm_of_texts(*texts)
        arm = self._known[texts]
        return Arm(arm.method, arm.adapter, {name: run.config.get(name) for name in self._names})

    def find(self, run: RunRecord, folder: str) -> Arm | None:
        """Return the arm of a run; among arms that train the same, the one with this folder."""
        arms = self._arms.get(self.arm_of(run), [])
        return next((arm for arm in arms if arm.folder == folder), arms[0] if arms else None)


def _read_cell(folder: RunFolder, cell: RunResult) -> RunResult:
    """Add the content of a run's folder."""
    cell = replace(cell, folder=folder.path)
    try:
        if folder.finished:
            scores = read_scores(folder.scores_file)
            if not folder.history_file.is_file():
                raise RunError(
                    f"{folder.history_file} is missing although the run has finished. {remedy(folder.history_file)}"
                )
            return replace(_with_history(cell, folder, scores), state=RunState.FINISHED, scores=scores)
        if folder.error_file.is_file():
            return replace(cell, state=RunState.FAILED, failure=read_record(folder.error_file, Failure))
        if folder.pauses_file.is_file():
            return replace(_with_history(cell, folder), state=RunState.PAUSED)
    except (GradgateError, OSError) as error:
        return replace(cell, state=RunState.FAILED, failure=Failure(type(error).__name__, str(error)))
    return cell


def _with_history(cell: RunResult, folder: RunFolder, scores: Scores | None = None) -> RunResult:
    """Add what the run recorded; of a paused one, also what it has done since without being paused again."""
    read = read_history_so_far if scores is None else read_history
    noted = read(folder.history_file) if folder.history_file.is_file() else History()
    progress = progress_of(read_pauses(folder), scores, noted.dev)
    return replace(cell, progress=progress, history=noted.dev, losses=noted.losses, test_history=noted.tests)


def _check_score(cell: RunResult, metric: str, split: str) -> RunResult:
    """Return the result, as failed without a finite number on dev and on the split that methods are compared on."""
    if cell.scores is None:
        return cell
    needed = (split,) if cell.folder is None else (DEV, split)  # an imported run may have no score on dev
    for name in dict.fromkeys((DEV, split, *cell.scores.tests)):
        value = cell.metrics(name).get(metric)
        missing = value is None and name in needed
        if missing or (value is not None and not isfinite(value)):
            reason = f"scores.json: {metric} on {name} is {value}, expected a finite number."
            return replace(cell, state=RunState.FAILED, scores=None, failure=Failure("RunError", reason), **NO_HISTORY)
    return cell


def _differences(cells: list[RunResult]) -> Iterator[str]:
    """Yield what makes finished runs hard to compare: other versions or another device."""
    finished = [cell for cell in cells if cell.scores]
    devices = Counter(cell.scores.cost.device for cell in finished if cell.scores)
    if len(devices) > 1:
        yield f"Runs used different devices, so times are not comparable: {_counted(devices)}."
    for name in sorted({name for cell in finished for name in cell.versions}):
        versions = Counter(str(cell.versions.get(name, "unknown")) for cell in finished)
        if len(versions) > 1:
            yield f"Runs used different versions of {name}: {_counted(versions)}."


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{value} ({count} run{'s' * (count > 1)})" for value, count in counts.items())
