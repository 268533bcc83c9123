"""Read and check the texts that forgetting is measured on, independent of the model."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from gradgate.errors import DataError, UsageError, nearest
from gradgate.settings.forgetting import ForgettingSetting
from gradgate.tasks import TaskData, TaskSpec, find_task, task_names
from gradgate.tasks.data import load_tests, tests_of
from gradgate.tasks.detect import holds_responses
from gradgate.tasks.layout import laid_out
from gradgate.tasks.metrics import KL
from gradgate.tasks.readers.files import ENDINGS, missing
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.readers.texts import Asked, read_source, texts_of
from gradgate.tasks.spec import build_spec, plain_name

KIND = "generation"
_SPLIT = "test"
_TEXT = "text"
_FILES = (*ENDINGS, ".txt")
LOSS = "loss"
OF_TEXT = (LOSS, KL)
"""Metrics of running text."""


@dataclass(frozen=True)
class RunningText:
    """Texts without responses.

    Attributes:
        texts: none of them blank, in the order of the source.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True)
class OtherTask:
    """Prompts with responses of another task.

    Attributes:
        data: of the task.
        split: the test split that is measured: ``test`` if it exists, else the first one, or dev.
    """

    data: TaskData
    split: str


def check_forgetting(setting: ForgettingSetting, task: str, kind: str) -> None:
    """Check a setting before a model is loaded or a file is read completely.

    Args:
        task, kind: of the run.

    Raises:
        UsageError: if the run does not generate text, or the other task is not a generation task.
        DataError: if the file does not exist.
    """
    if kind != KIND:
        raise UsageError(
            f"{setting.asked}: the task {task} is {kind}, so its model has a task head instead of a language-model "
            f"loss. Forgetting needs a task of kind {KIND}; leave {setting.parameter}= out."
        )
    if setting.names_task:
        _task(setting)
    elif not setting.path.is_file() and (setting.path.suffix in _FILES or setting.place.count("/") != 1):
        raise DataError(
            f"{setting.asked}: {missing(setting.path)}. Pass a text file with one text per line, a table, or a "
            f"data set of the hub"
        )


def read_forgotten(setting: ForgettingSetting) -> RunningText | OtherTask:
    """Read running text, or prompts and responses of another task, from a file, a data set or a task's name.

    A table with columns ``prompt`` and ``response`` (or ``completion``), or ``messages``, is read as prompts and
    responses, unless ``column`` names a column of texts.

    Raises:
        UsageError: for a task of another kind, or a metric of prompts and responses for running text.
        DataError: if there is nothing to read, or it cannot be read.
    """
    if setting.names_task:
        return _of(load_tests(_task(setting), None))
    where = str(setting.path) if setting.path.is_file() else setting.place
    source = read_source(where, setting.subset, setting.split or "train")
    if isinstance(source, SourceTable) and setting.column is None and holds_responses(source):
        return _of(tests_of(*_as_task(setting, source)))
    if setting.metric not in (None, *OF_TEXT):
        raise UsageError(
            f"{setting.asked}: {setting.metric} needs prompts and responses, but {setting.place} is running text, "
            f"whose metrics are {' and '.join(OF_TEXT)}. Name one of these, or pass a file with prompt and response."
        )
    asked = Asked(f"{setting.parameter}=", f"{setting.parameter}=FILE:column=NAME")
    return RunningText(tuple(texts_of(source, setting.column or _TEXT, setting.place, asked)))


def fingerprint_of(found: RunningText | OtherTask) -> str:
    """Return a digest that is equal for the same texts, whatever the model."""
    if isinstance(found, OtherTask):
        return sha256(f"{found.data.fingerprint} {found.split}".encode()).hexdigest()[:16]
    return sha256("\n".join(found.texts).encode(errors="surrogatepass")).hexdigest()[:16]


def _of(data: TaskData) -> OtherTask:
    return OtherTask(data, _SPLIT if _SPLIT in data.tests else next(iter(data.tests)))


def _task(setting: ForgettingSetting) -> TaskSpec:
    """Return the task that the setting names."""
    if not setting.path.exists() and setting.place not in task_names():
        near = nearest(setting.place, task_names())
        raise UsageError(
            f"{setting.asked}: {missing(setting.path)}, and no task has that name.{near} Pass a text "
            f"file with one text per line, a table, a data set of the hub, or a task of kind {KIND}."
        )
    spec = find_task(setting.place, metric=_of_task(setting))
    if spec.kind != KIND:
        raise UsageError(
            f"{setting.asked}: the task {spec.name} is {spec.kind}, for which the model would need another "
            f"head. Expected a task of kind {KIND}, a file of prompts and responses, or running text."
        )
    return spec


def _of_task(setting: ForgettingSetting) -> str | None:
    """Return the metric if a task can have it; None for the task's own."""
    return None if setting.metric == KL else setting.metric


def _as_task(setting: ForgettingSetting, table: SourceTable) -> tuple[TaskSpec, None, dict[str, SourceTable]]:
    """Return a file of prompts and responses as a test split."""
    described = {"name": plain_name(setting.path.stem), "kind": KIND, "metric": _of_task(setting) or LOSS}
    spec = build_spec(described, f"{setting.asked}")
    return spec, None, {_SPLIT: laid_out(spec, table)}
