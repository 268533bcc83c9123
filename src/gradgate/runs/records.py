"""Define the records in a run's folder: one schema for writing and reading.

``run.json`` is a :class:`RunRecord`, ``scores.json`` holds :class:`Scores` (that of an evaluation an
:class:`EvaluationRecord`), and ``error.json`` a :class:`Failure`. For ``history.jsonl`` see
:mod:`gradgate.runs.history`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, TypeGuard, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from gradgate.errors import RunError
from gradgate.files import read_json, remedy, write_json
from gradgate.places import short_name
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.tasks.metrics.per_class import ClassScores
from gradgate.tasks.types import DEV as DEV
from gradgate.tasks.types import TRAIN as TRAIN

Record = TypeVar("Record")
Metrics = Mapping[str, float | None]
"""Metric name to value."""

_LARGEST = 1e100  # beyond it, squares and sums of scores are no numbers any more
_IF_GIVEN = {"if_given": True}  # metadata of a field that is not written as null


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Check the settings that identify a run, which any version has written."""
    for name, kinds in (("method", (str,)), ("seed", (int,)), ("adapter", (str, type(None)))):
        value = settings.get(name)
        if not isinstance(value, kinds):
            expected = " or ".join({str: "text", int: "a whole number", type(None): "null"}[kind] for kind in kinds)
            raise ValueError(f"{name} is {value!r}; expected {expected}")
    return settings


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """The data of a run or study.

    Attributes:
        name: of the task.
        kind: of the task.
        metric: that selects the best checkpoint.
        metric_higher_is_better: how it selects.
        labels: the model's outputs in their order; None if they are not classes.
        fingerprint: digest of the data.
        rows: split to number of rows.
        languages: split to language, for a task in several.
        source: the language that is trained on.
        split: how rows of one file became train, dev and test; None if each has its own file.
        mix: how several tasks are mixed.
        tasks: the record of each of several tasks.
        reading: the columns and format of its rows, as entries of a task file.
        train_counts: label to rows of train, or tokens, that have it; None if the outputs are not classes.
    """

    name: str
    kind: str
    metric: str
    metric_higher_is_better: bool = True
    labels: tuple[str, ...] | None = None
    fingerprint: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    source: str = "en"
    split: str | None = field(default=None, metadata=_IF_GIVEN)
    mix: str | None = field(default=None, metadata=_IF_GIVEN)
    tasks: tuple[TaskRecord, ...] | None = field(default=None, metadata=_IF_GIVEN)
    reading: dict[str, Any] | None = field(default=None, metadata=_IF_GIVEN)
    train_counts: dict[str, int] | None = field(default=None, metadata=_IF_GIVEN)


@dataclass(frozen=True)
class ModelRecord:
    """The model of a study, with its number of parameters."""

    name: str
    parameters: int

    @property
    def label(self) -> str:
        """The name; for a folder the last part of its path, which does not depend on the machine."""
        return short_name(self.name)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """``run.json``. A run that has not begun to train has written its ``config`` only.

    Attributes:
        config: the settings, as :meth:`gradgate.settings.run.RunConfig.record` gives them.
        fingerprint: of the settings.
        versions: of the packages that compute.
        task: the data.
        train_examples: rows that the run trains on.
        processes: that were launched together.
        model: ``class`` and number of ``parameters``; with PEFT, where the ``adapter`` is.
        followed: the method with the digest of its plan file, if it follows one.
        language_adapters: language to the digest of its adapter, of those that the run scores with.
        class_weights: label to its weight in the loss, or to the weights of its absence and presence if rows have
            several labels; None without weights.
    """

    config: Annotated[dict[str, Any], AfterValidator(_check_settings)]
    fingerprint: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    task: TaskRecord | None = None
    train_examples: int | None = None
    processes: int | None = None
    model: dict[str, str | int] = field(default_factory=dict)
    followed: str | None = field(default=None, metadata=_IF_GIVEN)
    language_adapters: dict[str, str] | None = field(default=None, metadata=_IF_GIVEN)
    class_weights: Mapping[str, float | Mapping[str, float]] | None = field(default=None, metadata=_IF_GIVEN)

    @property
    def method(self) -> str:
        """The method, as it was typed."""
        return str(self.config["method"])

    @property
    def adapter(self) -> str | None:
        """The adapter, as it was typed."""
        adapter: str | None = self.config.get("adapter")
        return adapter

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.config["seed"])

    def check_continues(self, begun: RunRecord, folder: Path) -> None:
        """Check that this run may resume one that was begun in a folder.

        Raises:
            RunError: if that one has another number of processes, other data, or followed another plan.
        """
        begun.check_plan(self.followed, folder)
        if begun.processes is not None and begun.processes != self.processes:
            raise RunError(
                f"{folder} was begun with {begun.processes} processes, and {self.processes} were launched: "
                f"each would see other batches. Launch as many as before, or give another out=."
            )
        if begun.task is not None and self.task is not None and begun.task.fingerprint != self.task.fingerprint:
            raise RunError(
                f"{folder} was begun on other data: the files of task {self.task.name!r} have changed since. "
                f"Give another out= to train on them."
            )

    def check_plan(self, followed: str | None, folder: Path) -> None:
        """Raise RunError if this run followed a plan file that has changed since."""
        if self.followed is not None and self.followed != followed:
            raise RunError(
                f"{folder} was begun with another plan: the file of {self.method!r} has changed since ({self.followed} "
                f"there, {followed} here). Put back the file as it was, or give another out=."
            )


@dataclass(frozen=True, kw_only=True)
class FileSizes:
    """Bytes on disk of the weights of a run.

    Attributes:
        stored: the run's own files: its delta, or the whole model.
        whole: the whole model.
        base: the pretrained model, which a delta needs once for all tasks; 0 if the whole model is stored.
    """

    stored: int
    whole: int
    base: int = 0

    def of_tasks(self, count: int) -> int:
        """Return the bytes of n tasks that are stored like this one."""
        return self.base + count * self.stored

    def saved(self, count: int) -> float:
        """Return the share that n tasks save, compared with n whole models."""
        return 1 - self.of_tasks(count) / (count * self.whole)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a run; None is what the source of an imported one does not say.

    Attributes:
        steps: optimizer steps done.
        seconds_per_step: median over the steps.
        seconds_total: of the whole training.
        peak_memory_bytes: None if it was not measured.
        trainable_share: open parameters over all parameters, the mean over the steps.
        parameters: in the model.
        parameters_trained: open at any time.
        bytes_stored: that the task needs in addition to the pretrained model; None if it was not counted.
        device: where it ran.
        prefix_rows: rows that the frozen lower layers computed, and rows from the activation cache; None without it.
        files: of the weights; None for an adapter, or if the weights were not kept.
    """

    steps: int | None
    seconds_per_step: float | None
    seconds_total: float | None
    peak_memory_bytes: int | None = None
    trainable_share: float | None
    parameters: int | None
    parameters_trained: int | None
    bytes_stored: int | None = None
    device: str
    prefix_rows: dict[str, int] | None = None
    files: FileSizes | None = field(default=None, metadata=_IF_GIVEN)


@dataclass(frozen=True, kw_only=True)
class SplitScores:
    """The scores of one set of weights.

    Attributes:
        metric: that selects.
        dev: the scores on dev.
        tests: the scores on each test split.
        averages: the same over languages, as :func:`gradgate.tasks.languages.average` gives them.
        tasks: the scores of each of several tasks.
    """

    metric: str
    dev: Metrics
    tests: Mapping[str, Metrics]
    tasks: dict[str, SplitScores] | None = field(default=None, metadata=_IF_GIVEN)
    averages: Mapping[str, Metrics] = field(default_factory=dict)

    @property
    def test_mean(self) -> float | None:
        """The mean of the metric over the test splits; None without any."""
        values = [value for metrics in self.tests.values() if (value := metrics[self.metric]) is not None]
        return fmean(values) if values else None


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The content of ``scores.json``: the scores of the best weights on dev, and the cost of the run.

    Attributes:
        metric: that selected them.
        best_step: after which the weights were the best; None for the scores of several runs.
        dev: the scores on dev.
        tests: the scores on each test split.
        tasks: the scores of each of several tasks.
        averages: as in :class:`SplitScores`.
        cost: of the run.
        forgetting: of something other than the task; None if it was not measured.
    """

    metric: str
    best_step: int | None
    dev: Metrics
    tests: Mapping[str, Metrics]
    tasks: dict[str, SplitScores] | None = field(default=None, metadata=_IF_GIVEN)
    averages: Mapping[str, Metrics] = field(default_factory=dict)
    cost: Cost
    forgetting: ForgettingRecord | None = field(default=None, metadata=_IF_GIVEN)

    @property
    def fault(self) -> str | None:
        """The fault of a number that runs are compared by: absent, not finite, or too large to compute with.

        Metrics that select nothing may be NaN, as the loss of a model that diverged late.
        """
        for split in (DEV, *self.tests):
            if (self.dev if split == DEV else self.tests[split]).get(self.metric) is None:
                return f"{self.metric} on {split} is None, expected a finite number"
        for place, value in self._numbers():
            if not isfinite(value) and place.startswith((f"{self.metric} on ", "cost.")):
                return f"{place} is {value}, expected a finite number"
            if isfinite(value) and abs(value) > _LARGEST:
                return f"{place} is {value:g}, expected a number between -{_LARGEST:g} and {_LARGEST:g}"
        return None

    def _numbers(self) -> Iterator[tuple[str, float]]:
        splits = {DEV: self.dev, **self.tests, **self.averages}
        for task, scores in (self.tasks or {}).items():
            splits |= {f"{task}/{name}": values for name, values in {DEV: scores.dev, **scores.tests}.items()}
        for split, metrics in splits.items():
            yield from ((f"{name} on {split}", value) for name, value in metrics.items() if value is not None)
        for item in fields(self.cost):
            value = getattr(self.cost, item.name)
            if isinstance(value, int | float):
                yield f"cost.{item.name}", value


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """The content of ``scores.json`` of an evaluation: the scores of a run's model on a task.

    Attributes:
        run: the settings of the run.
        task: the data.
        metric: the task's.
        tests: the scores on each split.
        averages: as in :class:`SplitScores`.
        classes: the scores of each class on each split; None if the task has none.
    """

    run: dict[str, Any]
    task: TaskRecord
    metric: str
    tests: Mapping[str, Metrics]
    averages: Mapping[str, Metrics]
    classes: dict[str, ClassScores] | None = field(default=None, metadata=_IF_GIVEN)


@dataclass(frozen=True)
class Failure:
    """The content of ``error.json``: why a run failed, and after how many steps if known."""

    type: str
    message: str
    step: int | None = None


def comparable(value: float | None) -> TypeGuard[float]:
    """Return True for a number that means and deviations can be computed with."""
    return value is not None and abs(value) <= _LARGEST


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def record_adapter(kind: type[Record]) -> TypeAdapter[Record]:
    """Return the validator of one kind of record; it is built once, as that takes milliseconds."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read_record(path: Path, kind: type[Record]) -> Record:
    """Read a file that contains one record.

    Raises:
        RunError: if it cannot be read or has other content; the message names the file and the field.
    """
    values = read_json(path, finite=False)
    try:
        return record_adapter(kind).validate_python(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"])
        raise RunError(
            f"{path} is damaged: {place + ': ' if place else ''}{wrong['msg']}, got {wrong['input']!r:.60}. "
            f"{remedy(path)}"
        ) from None


def read_scores(path: Path) -> Scores:
    """Read ``scores.json`` and check its numbers.

    Raises:
        RunError: as :func:`read_record`.
    """
    scores = read_record(path, Scores)
    if scores.fault is not None:
        raise RunError(f"{path} is damaged: {scores.fault}. {remedy(path)}")
    return scores


def write_record(path: Path, record: Any) -> None:
    """Write a record atomically; raise RunError if it cannot be written."""
    write_json(path, to_json(record))


def to_json(value: Any) -> Any:
    """Return the plain JSON values of a record or of a field's value."""
    if is_dataclass(value):
        items = ((item, getattr(value, item.name)) for item in fields(value))
        return {f.name: to_json(own) for f, own in items if own is not None or not f.metadata.get("if_given")}
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def versions(*others: str) -> dict[str, str]:
    """Return the versions that a run's numbers depend on; ``others`` are further packages."""
    packages = ("gradgate", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: _version(name) for name in (*packages, *others)},
    }


@cache
def _version(package: str) -> str:
    return version(package)  # takes longer than a step of a small model
