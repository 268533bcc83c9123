"""Choose how often each of several tasks occurs when they are trained together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradgate.errors import DataError, UsageError
from gradgate.tasks.catalog import entries, plain
from gradgate.tasks.faults import in_words
from gradgate.tasks.find import find_task, task_names
from gradgate.tasks.metrics import greater_is_better
from gradgate.tasks.spec import TaskSpec, build_spec, read_yaml

SIZE, TEMPERATURE = "size", "temperature"


@dataclass(frozen=True)
class TaskMixing:
    """Shares of tasks in the training.

    Args:
        temperature: task i is drawn with probability ``n_i^(1/T) / sum_j n_j^(1/T)`` for each batch, ``n`` being the
        numbers of training examples: 1 is in proportion to size, more is flatter. None takes each batch of each task
        once per epoch, so that shares are exactly those of size.

    Source:
        None: MT-DNN, Liu et al. 2019, Algorithm 1, https://aclanthology.org/P19-1441. Temperature: as multilingual
        BERT and Arivazhagan et al. 2019, Sec. 4, https://arxiv.org/abs/1907.05019.
    """

    temperature: float | None = None

    @property
    def text(self) -> str:
        """The text that :func:`read_mix` reads."""
        return SIZE if self.temperature is None else f"{TEMPERATURE}:{self.temperature:g}"

    def probabilities(self, sizes: Sequence[int]) -> list[float]:
        """Return the expected share of each task, from the number of training examples of each."""
        scaled = [math.log(size) / (self.temperature or 1.0) for size in sizes]
        weights = [math.exp(value - max(scaled)) for value in scaled]
        return [weight / sum(weights) for weight in weights]


def read_mix(text: str) -> TaskMixing:
    """Parse ``size`` or ``temperature:2``.

    Raises:
        UsageError: for anything else, or a temperature that is not above 0.
    """
    word, colon, number = text.replace(" ", "").partition(":")
    if word == SIZE and not colon:
        return TaskMixing()
    try:
        temperature = float(number)
    except ValueError:
        temperature = math.nan
    if word != TEMPERATURE or not 0 < temperature < math.inf:
        raise UsageError(f"mix={text!r}: expected size, or temperature:T with T above 0, as in temperature:2.")
    return TaskMixing(temperature)


KIND = "multitask"
JOINT = "+"
_YAML_ENDINGS = (".yaml", ".yml")
_PATHS = ("data", "train_file", "dev_file", "test_file")


class MultitaskEntry(BaseModel):
    """One task of a YAML file, as ``gradgate train`` takes it, with paths relative to the file's folder.

    Args:
        task: as of ``--task``.
        name: in place of the task's own, if two tasks would have one name.
        others: as of :func:`gradgate.tasks.find_task`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    name: str | None = None
    data: Path | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    kind: str | None = None
    metric: str | None = None
    train_file: Path | None = None
    dev_file: Path | None = None
    test_file: Path | None = None
    languages: tuple[str, ...] | None = None
    source: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: object) -> object:
        return {"task": value} if isinstance(value, str) else value


class MultitaskFile(BaseModel):
    """A YAML file of ``kind: multitask``.

    Args:
        tasks: two or more; a name alone stands for an entry with nothing else.
        mix: ``size`` or ``temperature:T``, see :class:`gradgate.tasks.multitask.TaskMixing`.
        name, description: for people.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    tasks: tuple[MultitaskEntry, ...]
    mix: str = "size"
    name: str | None = Field(None, pattern=r"^\w[\w.+-]*$")
    description: str | None = None


@dataclass(frozen=True)
class MultitaskSpec:
    """Tasks that are trained together, before any of their data is read."""

    name: str
    tasks: tuple[TaskSpec, ...]
    mix: TaskMixing


def is_multitask(name: str) -> bool:
    """Return True if a task's text means several: names with ``+`` between them, or YAML of ``kind: multitask``."""
    path = Path(name)
    try:
        if path.suffix in _YAML_ENDINGS and path.is_file():
            return bool(read_yaml(path).get("kind") == KIND)
        return JOINT in name and not path.exists()
    except (DataError, OSError):
        return False  # reading it as one task reports the error


def find_multitask(name: str, *, data: Path | None = None, mix: str | None = None) -> MultitaskSpec:
    """Return the tasks that a text means for which :func:`is_multitask` is True.

    Args:
        name: ``cola+sst2`` or a YAML file.
        data: of names, the folder in whose sub-folders the tasks' files are, each named like its task (``SST-2`` is
            ``sst2``); of a YAML file, the folder that its paths are relative to, in place of its own.
        mix: in place of the YAML file's, or of ``size``.

    Raises:
        UsageError: fewer than two tasks, one of them twice, or one that is not known.
        DataError: files that cannot be found or a description with faults.
    """
    if data is not None:
        _check_folder(data)
    found = _from_file(Path(name), data) if Path(name).is_file() else _from_names(name, data)
    _check(found)
    return found if mix is None else MultitaskSpec(found.name, found.tasks, read_mix(mix))


def _from_names(text: str, data: Path | None) -> MultitaskSpec:
    names = [word.strip() for word in text.split(JOINT)]
    if not all(names):
        raise UsageError(f"task={text}: expected names with one + between each two, as in cola+sst2")
    return MultitaskSpec(text, tuple(find_task(name, data=task_folder(name, data)) for name in names), TaskMixing())


def task_folder(name: str, data: Path | None) -> Path | None:
    """Return the sub-folder with the files of a named task; None if none is wanted.

    Raises:
        UsageError: for what is not a name.
        DataError: unless one sub-folder is named like the task.
    """
    if data is None or (name not in entries() and name in task_names()):
        return None
    if name not in entries():
        find_task(name)  # raises for an unknown name
        raise UsageError(f"data={data} is for names of tasks, but {name} is data itself; describe it in a YAML file")
    _check_folder(data)
    known = entries()[name].folder_names
    found = [path for path in sorted(Path(data).iterdir()) if path.is_dir() and plain(path.name) in known]
    if len(found) != 1:
        there = f"{len(found)} ({', '.join(path.name for path in found)})" if found else "none"
        raise DataError(
            f"Expected one folder in {data} that is named like the task {name}, found {there}. Rename one, or "
            f"describe the task in a YAML file"
        )
    return found[0]


def _check_folder(data: Path) -> None:
    if not Path(data).is_dir():
        raise DataError(f"data={data} is not a folder; pass the one that holds the tasks' folders")


def _from_file(path: Path, data: Path | None) -> MultitaskSpec:
    try:
        written = MultitaskFile.model_validate(read_yaml(path))
    except ValidationError as error:
        faults = [in_words(fault, MultitaskFile) for fault in error.errors()]
        raise DataError(f"{path} is not a valid list of tasks: {'; '.join(faults)}") from error
    root = data or path.parent
    specs = tuple(_entry_spec(entry, root) for entry in written.tasks)
    return MultitaskSpec(written.name or path.stem, specs, read_mix(written.mix))


def _entry_spec(entry: MultitaskEntry, root: Path) -> TaskSpec:
    flags: dict[str, Any] = entry.model_dump(exclude={"task", "name"})
    flags |= {name: root / flags[name] for name in _PATHS if flags[name] is not None}
    if is_multitask(str(root / entry.task)):
        raise DataError(
            f"{root / entry.task} describes several tasks, and one is expected for each entry of `tasks`. List its "
            f"tasks instead"
        )
    known = entry.task in task_names() or not (root / entry.task).exists()
    spec = find_task(entry.task if known else root / entry.task, **flags)
    if entry.name is None:
        return spec
    return build_spec({**spec.model_dump(), "name": entry.name}, f"The task {entry.task}")


def _check(found: MultitaskSpec) -> None:
    names = [spec.name for spec in found.tasks]
    if len(names) < 2:
        raise UsageError(
            f"{found.name} names {len(names)} task; expected two or more. To train one task, pass its name"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"{found.name} names the task {', '.join(twice)} more than once. Leave one out, or give each a `name` of "
            f"its own in a YAML file of `kind: {KIND}`"
        )
    in_model = [name.replace(".", "_") for name in names]
    repeated = next((each for each in in_model if in_model.count(each) > 1), None)
    alike = [name for name, each in zip(names, in_model, strict=True) if each == repeated]
    if alike:
        raise UsageError(
            f"{found.name} names {' and '.join(alike)}, which differ only in '.' and '_'. Give one another `name` in a "
            f"YAML file of `kind: {KIND}`"
        )
    falling = [f"{spec.name} ({spec.metric})" for spec in found.tasks if not greater_is_better(spec.metric)]
    if falling:
        raise UsageError(
            f"{', '.join(falling)}: checkpoints are selected by the mean over tasks, but this metric is better when "
            f"lower. Give the task another `metric`"
        )
