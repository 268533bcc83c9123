"""A study folder, read back, whatever the state of its runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

from gradgate.errors import MethodError, RunError
from gradgate.methods import method as read_method
from gradgate.study.grid import folder_name
from gradgate.study.study_file import LANGUAGE, Cell, StudyRecord, StudyResults, main_split_of, read_study_file
from gradgate.tasks.languages import AVERAGES
from gradgate.training.adapter_setting import canonical, titled
from gradgate.training.records import DEV, Failure, RunRecord, read_history, read_record, read_scores
from gradgate.training.run_folder import RunFolder


def read_study(folder: Path) -> StudyResults:
    """Read a study folder, whatever the state of its runs.

    Runs are matched by the method and seed in their ``run.json``. A run with a damaged file counts as failed, with
    the damage as its reason; one that cannot be told apart is left out and named in ``problems``.

    Raises:
        RunError: if ``study.json`` is absent or damaged.
    """
    study = read_study_file(folder)
    found, problems = _find_runs(folder, study)
    cells = [
        found.get((label, seed), Cell(method, seed, "missing", adapter=adapter))
        for (label, adapter, method), seed in product(_named(study), study.seeds)
    ]
    finished = [cell.scores for cell in cells if cell.scores]
    splits = tuple(dict.fromkeys(split for scores in finished for split in scores.tests))
    if not finished:
        splits = tuple(split for split in study.task.rows if split not in ("train", DEV))
    averages = tuple(name for name in AVERAGES if any(name in scores.averages for scores in finished))
    cells = [_check_score(cell, study.task.metric, main_split_of(splits, averages)) for cell in cells]
    problems += _differing(cells)
    spoken = splits and all(split in study.task.languages for split in splits)
    unit = LANGUAGE if spoken else "test split"
    return StudyResults(folder, study, tuple(cells), splits, tuple(problems), averages, unit)


def _find_runs(folder: Path, study: StudyRecord) -> tuple[dict[tuple[str, int], Cell], list[str]]:
    """The study's runs by label and seed as ``run.json`` names them, and what is wrong with the rest."""
    canonical_arm = lru_cache(maxsize=None)(_canonical)
    arms = {canonical_arm(adapter, method): (label, adapter, method) for label, adapter, method in _named(study)}
    begun = {path.parent for path in folder.glob("runs/*/seed-*/run.json")}
    found: dict[tuple[str, int], Cell] = {}
    damaged: dict[Path, str] = {}
    problems = []
    for path in sorted(begun):
        try:
            run = read_record(RunFolder(path).run_file, RunRecord)
        except RunError as error:
            damaged[path] = str(error)
            continue
        arm, seed = arms.get(canonical_arm(run.adapter, run.method)), run.seed
        place = path.relative_to(folder)
        if arm is None or seed not in study.seeds:
            what = titled(run.method, run.adapter)
            problems.append(f"{place} is left out: {what} with seed {seed} is not part of this study.")
        elif (arm[0], seed) in found:
            problems.append(f"{place} is left out: {found[arm[0], seed].folder} holds the same method and seed.")
        else:
            found[arm[0], seed] = _read_cell(
                RunFolder(path), Cell(arm[2], seed, "missing", adapter=arm[1]), run.versions
            )
    for (label, adapter, method), seed in product(_named(study), study.seeds):
        path = folder / "runs" / folder_name(method, adapter) / f"seed-{seed}"
        if (label, seed) in found or (path in begun and path not in damaged):
            continue
        cell = Cell(method, seed, "missing", path, adapter=adapter)
        if path in damaged:
            found[label, seed] = replace(cell, status="failed", failure=Failure("RunError", damaged.pop(path)))
        elif RunFolder(path).error_file.is_file():  # it failed before it could write its configuration
            found[label, seed] = _read_cell(RunFolder(path), cell, {})
    problems += [f"{path.relative_to(folder)} is left out: {reason}" for path, reason in damaged.items()]
    return found, problems


def _named(study: StudyRecord) -> list[tuple[str, str | None, str]]:
    """Label, adapter and method of each arm."""
    return [(label, *arm) for label, arm in zip(study.labels, study.arms, strict=True)]


def _canonical(adapter: str | None, method: str) -> tuple[str, str]:
    """``gradual:every=50`` and ``gradual`` are one method; one that this version does not know stays as it is."""
    try:
        return canonical(adapter), read_method(method).spec
    except MethodError:
        return canonical(adapter), method


def _read_cell(folder: RunFolder, cell: Cell, versions: dict[str, Any]) -> Cell:
    """The cell with what its folder holds."""
    cell = replace(cell, folder=folder.path, versions=versions)
    try:
        if folder.finished:
            scores = read_scores(folder.scores_file)
            if not folder.history_file.is_file():
                raise RunError(f"{folder.history_file} is missing although the run has finished.")
            history = read_history(folder.history_file)
            return replace(cell, status="finished", scores=scores, history=history)
        if folder.error_file.is_file():
            failure = read_record(folder.error_file, Failure)
            return replace(cell, status="failed", failure=failure)
    except RunError as error:
        return replace(cell, status="failed", failure=Failure(type(error).__name__, str(error)))
    return cell


def _check_score(cell: Cell, metric: str, split: str) -> Cell:
    """The cell, or a failed one if it has no finite number to compare, or a number that is not finite elsewhere."""
    if cell.scores is None:
        return cell
    for name in dict.fromkeys((DEV, split, *cell.scores.tests)):
        value = cell.metrics(name).get(metric)
        missing = value is None and name in (DEV, split)
        if missing or (value is not None and not isfinite(value)):
            reason = f"scores.json: {metric} on {name} is {value}, expected a finite number."
            return replace(cell, status="failed", scores=None, failure=Failure("RunError", reason), history=())
    return cell


def _differing(cells: list[Cell]) -> list[str]:
    """What makes finished runs hard to compare: other versions or another device."""
    finished = [cell for cell in cells if cell.scores]
    devices = Counter(cell.scores.cost.device for cell in finished if cell.scores)
    problems = [f"Runs used different devices, so that times do not compare: {_tally(devices)}."] * (len(devices) > 1)
    for name in sorted({name for cell in finished for name in cell.versions}):
        versions = Counter(str(cell.versions.get(name, "unknown")) for cell in finished)
        if len(versions) > 1:
            problems.append(f"Runs used different versions of {name}: {_tally(versions)}.")
    return problems


def _tally(counts: Counter[str]) -> str:
    return ", ".join(f"{value} ({count} run{'s' * (count > 1)})" for value, count in counts.items())
