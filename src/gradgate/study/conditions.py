"""Find the conditions of a study: each task with each model and training size, in folders of their own if several.

Each condition is a study of its own in every way but its queue, which all conditions share. On disk, conditions are
called parts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import RunError, UsageError, fault_with_place
from gradgate.files import in_use, portable_name, read_json, write_json
from gradgate.settings.run import RunConfig
from gradgate.study.study_file import STUDY_FILE, locked_folder
from gradgate.tasks.multitask import is_multitask, task_folder

CONDITIONS_FILE = "parts.json"
CONDITIONS_FOLDER = "parts"
_EARLIER_FILE = "axes.json"  # of studies that version 0.1 began
_OF_ONE_TASK = ("text", "text_pair", "label", "kind", "train_file", "dev_file", "test_file", "split")


@dataclass(frozen=True)
class TaskChoice:
    """A task as it was asked for: its ``--task``, and the folder of its files where that was given."""

    task: str
    data: str | None = None


Choice = TypeVar("Choice", TaskChoice, str)
Size = int | None
"""Rows of a training set; None for all of them."""


@dataclass(frozen=True)
class Condition:
    """One task with one model and one training size.

    Attributes:
        path: of its study folder.
        base: the settings of its runs.
        name: for people, empty in a study of this condition alone.
    """

    path: Path
    base: RunConfig
    name: str = ""


@dataclass(frozen=True)
class Conditions:
    """The tasks, models and training sizes of a study, whose conditions are each of one with each of the others.

    Attributes:
        tasks: of the study.
        models: of the study.
        train_sizes: empty if the settings say how many rows all conditions train on.
    """

    tasks: tuple[TaskChoice, ...]
    models: tuple[str, ...]
    train_sizes: tuple[Size, ...] = ()

    @classmethod
    def of(
        cls,
        base: RunConfig,
        tasks: Sequence[str] = (),
        models: Sequence[str] = (),
        train_sizes: Sequence[Size] = (),
    ) -> Conditions:
        """Return the conditions that were asked for.

        Args:
            base: names the task, the model and the training size if no others are passed.
            tasks: as of ``--task``. The files of several are in sub-folders of ``base.data`` that are named like them.
            models: as of ``--model``.
            train_sizes: rows of each training set, drawn by the seed; None for all rows. One is the base's.

        Raises:
            DataError: if the folder of a task cannot be found.
        """
        names = list(dict.fromkeys(tasks)) or [base.task]
        if len(names) == 1:
            found = [TaskChoice(names[0], None if base.data is None else str(base.data))]
        else:
            found = [TaskChoice(name, _data_of(name, base.data)) for name in names]
        return cls(_unique(found), _unique(models or [base.model]), tuple(dict.fromkeys(train_sizes)))

    def merge_existing(self, folder: Path) -> Conditions:
        """Return the parts that a study's folder has, followed by these.

        Raises:
            RunError: for a further training size in a study that was started with one.
        """
        existing = read_conditions(folder)
        if existing is None:
            return replace(self, train_sizes=self.train_sizes if len(self.train_sizes) > 1 else ())
        if len(self.train_sizes) > 1 and not existing.train_sizes:
            raise RunError(
                f"{folder} was started with one training size, but train_size= lists {len(self.train_sizes)}. "
                "Pass another out= for a study of several."
            )
        sizes = tuple(dict.fromkeys([*existing.train_sizes, *self.train_sizes])) if existing.train_sizes else ()
        tasks, models = _unique([*existing.tasks, *self.tasks]), _unique([*existing.models, *self.models])
        return Conditions(tasks, models, sizes)

    def configured(self, folder: Path, base: RunConfig) -> list[Condition]:
        """Cross every task with every model and size, size by size, each with its folder and settings.

        Raises:
            UsageError: for several tasks with settings that describe one.
            RunError: if something else is in the folder, a study of one condition, or one condition of a study.
        """
        refuse_condition(folder)
        given = [f"{name}=" for name in _OF_ONE_TASK if getattr(base, name) is not None]
        if given and len(self.tasks) > 1:
            raise UsageError(
                f"{', '.join(given)}: these describe one task, but there are several. Describe each in its own "
                "YAML file."
            )
        combined = self._combined(base)
        if len(combined) == 1 and read_conditions(folder) is None:
            return [Condition(folder, self._configured(base, *combined[0]))]
        if read_conditions(folder) is None and in_use(folder):
            what = "a study of one task and model" if (folder / STUDY_FILE).is_file() else "no study"
            several = "tasks or models" if len(self.tasks) * len(self.models) > 1 else "training sizes"
            raise RunError(f"{folder} is not empty and holds {what}. Pass another out= for several {several}.")
        tasks, models, sizes = zip(*combined, strict=True)
        names = condition_names([task.task for task in tasks], models, sizes)
        return [
            Condition(self.path_of(folder, *each), self._configured(base, *each), name)
            for each, name in zip(combined, names, strict=True)
        ]

    def write(self, folder: Path) -> None:
        """Write ``parts.json``, with what another process may have added in the meantime."""
        with locked_folder(folder):
            merged = self.merge_existing(folder)
            write_json(folder / CONDITIONS_FILE, TypeAdapter(Conditions).dump_python(merged, mode="json"))

    def paths(self, folder: Path) -> list[Path]:
        """Return the folders of the parts."""
        return [self.path_of(folder, *each) for each in self._combined()]

    def _combined(self, base: RunConfig | None = None) -> list[tuple[TaskChoice, str, Size]]:
        sizes = self.train_sizes or (None if base is None else base.train_size,)
        return [(task, model, size) for size, model, task in product(sizes, self.models, self.tasks)]

    def path_of(self, folder: Path, task: TaskChoice, model: str, size: Size) -> Path:
        """Return the folder of one condition, which does not depend on other tasks, models and sizes."""
        name = f"{_last_word(task.task)}__{_last_word(model)}"
        if (task.task, task.data, model) != (_last_word(task.task), None, _last_word(model)):
            whole = json.dumps([task.task, task.data, model])
            name = f"{name}-{sha256(whole.encode(errors='surrogatepass')).hexdigest()[:8]}"
        rows = f"__{'all' if size is None else size}-rows" if self.train_sizes else ""
        return folder / CONDITIONS_FOLDER / portable_name(f"{name}{rows}")

    @staticmethod
    def _configured(base: RunConfig, task: TaskChoice, model: str, size: Size) -> RunConfig:
        own: dict[str, Any] = {"task": task.task, "model": model, "data": task.data, "train_size": size}
        return base.model_copy(update=own)


def is_study(folder: Path) -> bool:
    """Return True for the folder of a study, whether of one task and model or of several."""
    return (folder / STUDY_FILE).is_file() or _conditions_file(folder) is not None


def _conditions_file(folder: Path) -> Path | None:
    files = (folder / name for name in (CONDITIONS_FILE, _EARLIER_FILE))
    return next((file for file in files if file.is_file()), None)


def read_conditions(folder: Path) -> Conditions | None:
    """Read the parts of a study of several tasks or models; return None if the folder has none.

    Raises:
        RunError: if the file is damaged.
    """
    file = _conditions_file(folder)
    if file is None:
        return None
    try:
        return TypeAdapter(Conditions).validate_python(read_json(file))
    except ValidationError as error:
        raise RunError(f"{file} is damaged: {fault_with_place(error.errors()[0])}. Pass another out=.") from None


def condition_folders(folder: Path) -> list[Path]:
    """Return the study folders of all parts that have started; the folder itself for a study of one task and one model.

    Raises:
        RunError: if the study has several, and none was started.
    """
    conditions = read_conditions(folder)
    if conditions is None:
        return [folder]
    found = [path for path in conditions.paths(folder) if (path / STUDY_FILE).is_file()]
    if not found:
        raise RunError(f"{folder} has no part of its study yet. Run the command that started it again.")
    return found


def find_whole(folder: Path) -> Path | None:
    """Return the folder of the study that a part's folder belongs to; None for the folder of any other study."""
    parent = folder.resolve().parent
    return parent.parent if parent.name == CONDITIONS_FOLDER and _conditions_file(parent.parent) is not None else None


def refuse_condition(folder: Path) -> None:
    """Raise RunError for the folder of a part, whose runs are in the queue of the whole study."""
    whole = find_whole(folder)
    if whole is not None:
        raise RunError(f"{folder} is a part of the study {whole}, which has the queue. Name that folder instead.")


def condition_names(tasks: Sequence[str], models: Sequence[str], sizes: Sequence[Size] = ()) -> list[str]:
    """Name each part by its task, model and training size, whichever differ; by a number if none differs."""
    of_task, of_model = short_names(list(dict.fromkeys(tasks))), short_names(list(dict.fromkeys(models)))
    of_size = {size: "all rows" if size is None else f"{size:,} rows" for size in sizes}
    axes: list[tuple[dict[Any, str], Sequence[Any]]] = [(of_task, tasks), (of_model, models), (of_size, sizes)]
    differing = [(named, values) for named, values in axes if len(named) > 1] or axes[:1]
    words = [", ".join(named[values[place]] for named, values in differing) for place in range(len(tasks))]
    again = [words[:place].count(word) for place, word in enumerate(words)]
    return [f"{word} ({number + 1})" if number else word for word, number in zip(words, again, strict=True)]


def short_names(texts: Sequence[str]) -> dict[str, str]:
    """Return the last word of each path or hub name; the full text if two would be equal."""
    words = [_last_word(text) for text in texts]
    return {text: text if words.count(word) > 1 else word for text, word in zip(texts, words, strict=True)}


def _last_word(text: str) -> str:
    return Path(text).name or text


def _unique(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Drop duplicates and keep the first spelling, as one path may be written in several ways."""
    found: dict[object, Choice] = {}
    for choice in choices:
        words = (choice.task, choice.data) if isinstance(choice, TaskChoice) else (choice,)
        found.setdefault(tuple(word and _same_path(word) for word in words), choice)
    return tuple(found.values())


def _same_path(text: str) -> str:
    return str(Path(text).resolve()) if Path(text).exists() else text


def _data_of(task: str, data: Path | None) -> str | None:
    if data is None or is_multitask(task):
        return None if data is None else str(data)
    folder = task_folder(task, data)
    return None if folder is None else str(folder)
