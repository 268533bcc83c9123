"""Define the records in a run's folder: one schema for writing and reading.

``run.json`` is a :class:`RunRecord` and ``error.json`` a :class:`Failure`. For ``scores.json`` see
:mod:`gradgate.runs.scores`, for ``history.jsonl`` :mod:`gradgate.runs.history`.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from gradgate import __version__
from gradgate.errors import RunError, fault_with_place
from gradgate.files import read_json, remedy, write_json
from gradgate.places import short_name
from gradgate.tasks.types import DEV as DEV
from gradgate.tasks.types import TRAIN as TRAIN

Record = TypeVar("Record")

IF_GIVEN = {"if_given": True}
"""Metadata of a field that is not written as null."""


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
    split: str | None = field(default=None, metadata=IF_GIVEN)
    mix: str | None = field(default=None, metadata=IF_GIVEN)
    tasks: tuple[TaskRecord, ...] | None = field(default=None, metadata=IF_GIVEN)
    reading: dict[str, Any] | None = field(default=None, metadata=IF_GIVEN)
    train_counts: dict[str, int] | None = field(default=None, metadata=IF_GIVEN)


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
    """``run.json``. A run that has not begun to train has written its ``config`` and ``processes`` only.

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
    followed: str | None = field(default=None, metadata=IF_GIVEN)
    language_adapters: dict[str, str] | None = field(default=None, metadata=IF_GIVEN)
    class_weights: Mapping[str, float | Mapping[str, float]] | None = field(default=None, metadata=IF_GIVEN)

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
        """Check that this run may resume one that was started in a folder.

        Raises:
            RunError: if that one has other data, or followed another plan.
        """
        begun.check_plan(self.followed, folder)
        if begun.task is not None and self.task is not None and begun.task.fingerprint != self.task.fingerprint:
            raise RunError(
                f"{folder} was started on other data: the files of task {self.task.name!r} have changed since. "
                "Pass another out= to train on them."
            )

    def check_plan(self, followed: str | None, folder: Path) -> None:
        """Raise RunError if this run followed a plan file that has changed since."""
        if self.followed is not None and self.followed.rpartition("@")[2] != str(followed).rpartition("@")[2]:
            raise RunError(
                f"{folder} was started with another plan: the file of {self.method!r} has changed since "
                f"({self.followed} there, {followed} here). Restore the file, or pass another out=."
            )


@dataclass(frozen=True)
class Failure:
    """The content of ``error.json``: why a run failed, and after how many steps if known."""

    type: str
    message: str
    step: int | None = None


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
    return _validated(path, read_json(path, finite=False), kind)


def find_record(path: Path, kind: type[Record], version: int) -> Record | None:
    """Read a file that contains one record and the version of its form; return None if there is no file.

    Raises:
        RunError: as :func:`read_record`, and if it has another version.
    """
    if not path.is_file():
        return None
    values = read_json(path)
    found = values.get("version")
    if found != version:
        raise RunError(f"{path} has version {found!r}, expected {version}. {remedy(path)}")
    return _validated(path, values, kind)


def _validated(path: Path, values: Any, kind: type[Record]) -> Record:
    try:
        return record_adapter(kind).validate_python(values)
    except ValidationError as error:
        raise RunError(f"{path} is damaged: {fault_with_place(error.errors()[0])}. {remedy(path)}") from None


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
    packages = ("torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "gradgate": __version__,  # which need not be installed: a path to its source is enough
        **{name: _version(name) for name in (*packages, *others)},
    }


@cache
def _version(package: str) -> str:
    return version(package)  # takes longer than a step of a small model
