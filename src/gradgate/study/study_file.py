"""What a study and its runs hold, as records: which runs finished, which failed and why, what each of them scored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from gradgate.tasks.languages import ZERO_SHOT
from gradgate.training.adapter_setting import titled

Status = Literal["finished", "failed", "missing"]
DEV = "dev"
LANGUAGE, TASK, COMBINATION = "language", "task", "combination"
"""Units of test splits: each in a language; or, put together from parts, each of a task, or of a task with a model."""


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

    ``best_step``: of that checkpoint; None for scores of several runs. ``averages``: the same over languages, as
    :func:`gradgate.tasks.languages.average` gives them.
    """

    metric: str
    best_step: int | None
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
