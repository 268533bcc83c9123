"""``study.json`` and what its runs hold, as records. Each has one schema, which writes and reads it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from gradgate.errors import RunError
from gradgate.files import read_json, write_json
from gradgate.tasks.languages import ZERO_SHOT
from gradgate.training.adapter_setting import titled
from gradgate.training.records import (
    DEV,
    DevRecord,
    Failure,
    Metrics,
    ModelRecord,
    Scores,
    TaskRecord,
    read_record,
    to_json,
)
from gradgate.training.run_folder import RunFolder

STUDY_FILE = "study.json"
Status = Literal["finished", "failed", "missing"]
LANGUAGE, TASK, COMBINATION = "language", "task", "combination"
"""Units of test splits: each in a language; or, put together from parts, each of a task, or of a task with a model."""


@dataclass(frozen=True)
class SearchResult:
    """A setting that was tried, and its mean score on dev."""

    setting: dict[str, Any]
    dev: float


@dataclass(frozen=True)
class SearchRecord:
    """The search of a study: what is tried for each arm, and what was found.

    Attributes:
        space: the ranges and lists, as they were typed.
        settings: to try for each arm.
        seeds: each setting runs once with each.
        prune: whether runs below the median of their arm's end early.
        chosen: an arm's label to the setting that its runs take.
        results: an arm's label to the settings of which every run has finished, the best first.
    """

    space: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    prune: bool = False
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, tuple[SearchResult, ...]] = field(default_factory=dict)

    def without_results(self) -> SearchRecord:
        """The same search before anything was found."""
        return replace(self, chosen={}, results={})


@dataclass(frozen=True)
class StudyRecord:
    """``study.json``: the grid of adapters, methods and seeds, and the settings that all runs share.

    ``part`` names the task or model in a study of several.
    """

    task: TaskRecord
    model: ModelRecord
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    adapters: tuple[str | None, ...] = (None,)
    search: SearchRecord | None = None
    part: str = ""

    @property
    def arms(self) -> tuple[tuple[str | None, str], ...]:
        """Every adapter with every method; None for the model itself."""
        return tuple(product(self.adapters, self.methods))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the arms, as tables and figures have them."""
        return tuple(titled(method, adapter) for adapter, method in self.arms)


@dataclass(frozen=True)
class Cell:
    """One method with one seed, on an adapter or the model. ``scores`` is there if finished, ``failure`` if failed.

    ``part`` names its task or model where the study has several.
    """

    method: str
    seed: int
    status: Status
    folder: Path | None = None
    scores: Scores | None = None
    failure: Failure | None = None
    history: tuple[DevRecord, ...] = ()
    versions: dict[str, Any] = field(default_factory=dict)
    adapter: str | None = None
    part: str = ""

    @property
    def label(self) -> str:
        """What tables and figures call its method."""
        return titled(self.method, self.adapter)

    def metrics(self, split: str) -> Metrics:
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
        averages: the averages over test splits that any finished run has.
        problems: what a reader should know: files that could not be read, runs that do not belong.
        split_unit: what a test split stands for: a language, or a task or model of a study of several.
        parts: of such a study, the results of each by its name; what a cell holds is then put together from theirs.
    """

    folder: Path
    study: StudyRecord
    cells: tuple[Cell, ...]
    test_splits: tuple[str, ...]
    problems: tuple[str, ...]
    averages: tuple[str, ...] = ()
    split_unit: str = "test split"
    parts: tuple[tuple[str, StudyResults], ...] = ()

    @property
    def runs(self) -> tuple[Cell, ...]:
        """Every run, of all parts."""
        return tuple(replace(cell, part=name) for name, part in self.parts for cell in part.cells) or self.cells

    @property
    def main_split(self) -> str:
        """What methods are compared on: an average, ``test``, else the first test split, else dev."""
        return main_split_of(self.test_splits, self.averages)

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
        """How many runs have this status."""
        return sum(cell.status == status for cell in self.runs)


def main_split_of(test_splits: tuple[str, ...], averages: tuple[str, ...]) -> str:
    """What methods are compared on, of the splits and averages that are there."""
    if averages:
        return ZERO_SHOT if ZERO_SHOT in averages else averages[0]
    return "test" if "test" in test_splits else (*test_splits, DEV)[0]


def find_study(folder: Path) -> StudyRecord | None:
    """What ``study.json`` in a folder says; None where there is none.

    Raises:
        RunError: if the file is damaged.
    """
    file = folder / STUDY_FILE
    if not file.is_file():
        return None
    given = read_json(file)
    lacking = [name for name in ("task", "methods", "seeds", "settings") if name not in given]
    if lacking:
        raise RunError(
            f"{file} is damaged: it has no {', '.join(lacking)}. Put back a good copy, or give another --out."
        )
    study = read_record(file, StudyRecord)
    if not study.methods or not study.seeds or not study.adapters:
        raise RunError(
            f"{file} is damaged: expected at least one method, adapter and seed. Put back a good copy, or give another "
            f"--out."
        )
    return study


def read_study_file(folder: Path) -> StudyRecord:
    """What ``study.json`` in a folder says.

    Raises:
        RunError: if the file is absent or damaged.
    """
    study = find_study(folder)
    if study is None:
        raise RunError(
            f"{folder} holds no study: {folder / STUDY_FILE} is missing. Name a folder that `gradgate compare` made."
        )
    return study


def write_study_file(folder: Path, study: StudyRecord) -> None:
    """Write ``study.json``."""
    optional = ("search", "part")
    record = {name: value for name, value in to_json(study).items() if value or name not in optional}
    write_json(folder / STUDY_FILE, record)


def damage_of(folder: RunFolder) -> str | None:
    """Why the scores of a finished run cannot be read; None if they can, or if the run has not finished."""
    try:
        if folder.finished:
            read_record(folder.scores_file, Scores)
    except RunError as error:
        return str(error)
    return None
