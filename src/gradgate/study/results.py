"""A study folder, read back: which runs finished, which failed and why, and what each of them scored."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import MethodError, RunError
from gradgate.methods import method as read_method
from gradgate.study.grid import folder_name
from gradgate.tasks.averages import AVERAGES, ZERO_SHOT
from gradgate.training.adapter_choice import canonical, titled
from gradgate.training.folder import RunFolder

T = TypeVar("T")
Status = Literal["finished", "failed", "missing"]
DEV = "dev"


@dataclass(frozen=True)
class TaskRecord:
    """The task of a study.

    ``rows``: split to number of rows; ``languages``: split to language, of a task in several; ``source``: the language
    that it is trained in; ``fingerprint``: digest of the data.
    """

    name: str
    kind: str
    metric: str
    metric_higher_is_better: bool = True
    labels: tuple[str | int, ...] | None = None
    fingerprint: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    source: str = "en"


@dataclass(frozen=True)
class ModelRecord:
    """The model of a study, with its number of parameters."""

    name: str
    parameters: int


@dataclass(frozen=True)
class StudyRecord:
    """``study.json``: the grid of adapters, methods and seeds, and the settings that all runs share."""

    task: TaskRecord
    model: ModelRecord
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    adapters: tuple[str | None, ...] = (None,)
    search: dict[str, Any] | None = None

    @property
    def arms(self) -> tuple[tuple[str | None, str], ...]:
        """Every adapter with every method; None for the model itself."""
        return tuple(product(self.adapters, self.methods))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the arms, as tables and figures have them."""
        return tuple(titled(method, adapter) for adapter, method in self.arms)


@dataclass(frozen=True)
class Cost:
    """What a run cost.

    Attributes:
        steps: optimizer steps done.
        seconds_per_step: median over the steps.
        seconds_total: of the whole training.
        peak_memory_bytes: None where it was not measured.
        trainable_share: open parameters over all parameters, the mean over the steps.
        parameters: in the model.
        parameters_trained: open at any time.
        device: where it ran.
        bytes_stored: that the task needs beside the pretrained model; None where it was not counted.
    """

    steps: int
    seconds_per_step: float
    seconds_total: float
    trainable_share: float
    parameters: int
    parameters_trained: int
    device: str
    peak_memory_bytes: int | None = None
    bytes_stored: int | None = None


@dataclass(frozen=True)
class Scores:
    """``scores.json``: metric name to value, on dev and on each test split, from the best checkpoint on dev.

    ``averages``: the same over languages, as :func:`gradgate.tasks.averages.average` gives them.
    """

    metric: str
    best_step: int
    dev: dict[str, float | None]
    tests: dict[str, dict[str, float | None]]
    cost: Cost
    averages: dict[str, dict[str, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """``error.json``: why a run failed, and after how many steps where that is known."""

    type: str
    message: str
    step: int | None = None


@dataclass(frozen=True)
class DevRecord:
    """One evaluation on dev during training: metric name to value after ``step`` optimizer steps."""

    step: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class Cell:
    """One method with one seed, on an adapter or the model. ``scores`` is there if finished, ``failure`` if failed."""

    method: str
    seed: int
    status: Status
    folder: Path | None = None
    scores: Scores | None = None
    failure: Failure | None = None
    history: tuple[DevRecord, ...] = ()
    versions: dict[str, Any] = field(default_factory=dict)
    adapter: str | None = None

    @property
    def label(self) -> str:
        """What tables and figures call its method."""
        return titled(self.method, self.adapter)

    def metrics(self, split: str) -> dict[str, float | None]:
        """All metrics on ``"dev"``, a test split or an average; empty if the run has not finished or has none."""
        if self.scores is None:
            return {}
        return self.scores.dev if split == DEV else {**self.scores.averages, **self.scores.tests}.get(split, {})

    def score(self, split: str) -> float | None:
        """The study's metric on a split, or None."""
        return None if self.scores is None else self.metrics(split).get(self.scores.metric)


@dataclass(frozen=True)
class StudyResults:
    """A study and its runs.

    Attributes:
        cells: one for each adapter, method and seed of the study, in this order.
        test_splits: the test splits that any finished run has; those of the task while none has finished.
        averages: the averages over languages that any finished run has.
        problems: what a reader should know: files that could not be read, runs that do not belong.
    """

    folder: Path
    study: StudyRecord
    cells: tuple[Cell, ...]
    test_splits: tuple[str, ...]
    problems: tuple[str, ...]
    averages: tuple[str, ...] = ()

    @property
    def main_split(self) -> str:
        """What methods are compared on: the zero-shot average, ``test``, else the first test split, else dev."""
        return _main_split(self.test_splits, self.averages)

    def language(self, split: str) -> str:
        """The language of a split of a task in several languages, else the split's name."""
        return self.study.task.languages.get(split, split)

    @property
    def reference(self) -> str:
        """The label that the others are compared to: the first."""
        return self.study.labels[0]

    def of(self, label: str) -> tuple[Cell, ...]:
        """The cells of one label, one for each seed."""
        return tuple(cell for cell in self.cells if cell.label == label)

    def count(self, status: Status) -> int:
        """How many cells have this status."""
        return sum(cell.status == status for cell in self.cells)


@dataclass(frozen=True)
class _RunConfig:
    method: str
    seed: int
    adapter: str | None = None


@dataclass(frozen=True)
class _Run:
    config: _RunConfig
    versions: dict[str, Any] = field(default_factory=dict)


def read_study(folder: Path) -> StudyResults:
    """Read a study folder, whatever the state of its runs.

    Runs are matched by the method and seed in their ``run.json``. A run with a damaged file counts as failed, with
    the damage as its reason; one that cannot be told apart is left out and named in ``problems``.

    Raises:
        RunError: if ``study.json`` is absent or damaged.
    """
    file = folder / "study.json"
    if not file.is_file():
        raise RunError(f"{folder} holds no study: {file} is missing. Name a folder that `gradgate compare` made.")
    study = _load(file, StudyRecord)
    if not study.methods or not study.seeds:
        raise RunError(f"{file} is damaged: expected at least one method and one seed.")
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
    cells = [_check_score(cell, study.task.metric, _main_split(splits, averages)) for cell in cells]
    problems += _differing(cells)
    return StudyResults(folder, study, tuple(cells), splits, tuple(problems), averages)


def _main_split(test_splits: tuple[str, ...], averages: tuple[str, ...]) -> str:
    if ZERO_SHOT in averages:
        return ZERO_SHOT
    return "test" if "test" in test_splits else (*test_splits, DEV)[0]


def _find_runs(folder: Path, study: StudyRecord) -> tuple[dict[tuple[str, int], Cell], list[str]]:
    """The study's runs by label and seed as ``run.json`` names them, and what is wrong with the rest."""
    arms = {_canonical(adapter, method): (label, adapter, method) for label, adapter, method in _named(study)}
    begun = {path.parent for path in folder.glob("runs/*/seed-*/run.json")}
    found: dict[tuple[str, int], Cell] = {}
    damaged: dict[Path, str] = {}
    problems = []
    for path in sorted(begun):
        try:
            run = _load(RunFolder(path).run_file, _Run)
        except RunError as error:
            damaged[path] = str(error)
            continue
        arm, seed = arms.get(_canonical(run.config.adapter, run.config.method)), run.config.seed
        place = path.relative_to(folder)
        if arm is None or seed not in study.seeds:
            what = titled(run.config.method, run.config.adapter)
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
            scores = _load(folder.scores_file, Scores)
            history = _read_history(folder.history_file)
            return replace(cell, status="finished", scores=scores, history=history)
        if folder.error_file.is_file():
            failure = _load(folder.error_file, Failure)
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


def _read_history(path: Path) -> tuple[DevRecord, ...]:
    records = []
    if not path.is_file():
        raise RunError(f"{path} is missing although the run has finished.")
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            record = json.loads(line)
            if record["split"] == DEV:
                values = {name: value for name, value in record.items() if isinstance(value, int | float)}
                records.append(DevRecord(int(record["step"]), values))
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged in line {number}: {error}.") from None
    return tuple(records)


def _load(path: Path, kind: type[T]) -> T:
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"])
        raise RunError(f"{path} is damaged: {place + ': ' if place else ''}{wrong['msg']}.") from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}.") from None
