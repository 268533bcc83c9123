"""Find the models and data sets that a reproduction needs from outside the package, or why they are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradgate.errors import GradgateError, RunError, UsageError, nearest
from gradgate.papers.preset import PaperTask, Preset
from gradgate.places import typed_path, typed_place
from gradgate.tasks import find_task, load_task, task_names
from gradgate.tasks.catalog import entries, plain
from gradgate.tasks.languages import in_languages
from gradgate.tasks.types import TRAIN_AND_DEV, scored

_DEPTH = 3


@dataclass(frozen=True)
class OurModel:
    """A model that a paper's model becomes."""

    name: str
    layers: int
    hidden: int


@dataclass(frozen=True)
class OurTask:
    """A task that a paper's task becomes.

    Attributes:
        settings: of its runs.
        rows: its training examples.
        absent: languages of the paper without test data here.
    """

    settings: dict[str, Any]
    rows: int
    absent: tuple[str, ...] = ()


@dataclass
class Resources:
    """The models and tasks that exist, by the paper's labels, and the reasons why others are missing."""

    models: dict[str, OurModel] = field(default_factory=dict)
    tasks: dict[str, OurTask] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)


def given_models(preset: Preset, words: Sequence[str]) -> dict[str, str]:
    """Map the paper's labels to our models, from words such as ``FOLDER`` (for the first one) or ``XLM-R=FOLDER``.

    Raises:
        UsageError: for a label that the preset does not have, one that is given twice, or no name.
    """
    found: dict[str, str] = {}
    for word in words:
        label, equals, name = word.partition("=")
        if not equals or (label not in preset.models and typed_path(word).exists()):
            label, name = next(iter(preset.models)), word
        if label not in preset.models:
            raise UsageError(
                f"model={word}: {preset.name} has no model {label!r}.{nearest(label, preset.models)} "
                f"Its models: {', '.join(preset.models)}."
            )
        if not name:
            raise UsageError(f"model={word!r} names no model for {label}. Expected a folder or a hub name.")
        if label in found:
            raise UsageError(f"model= gives {label} twice, as {found[label]} and {name}. Pass each model once.")
        found[label] = typed_place(name)
    return found


def find_resources(preset: Preset, models: dict[str, str], data: Path | None, partial: bool = False) -> Resources:
    """Look for every model and data set of a preset; what is unavailable is named with the reason.

    Args:
        models: as :func:`given_models` returns them; if there are any, the others are left out.
        data: a folder with the folders of the data sets, or the folder of the only one.
        partial: take a task without those of the paper's languages that it has no test data in.
    """
    resources = Resources()
    for label, model in preset.models.items():
        name = models.get(label, None if models else model.name)
        if name is None and not models:
            resources.lacking[f"model {label}"] = f"it was never published; pass one with model={label}=FOLDER"
        elif name is not None:
            with _reason(resources, f"model {label}"):
                resources.models[label] = describe_model(name)
    for label, task in preset.tasks.items():
        with _reason(resources, f"task {label}"):
            settings = _find(task, data, alone=len(preset.tasks) == 1)
            found = _in_languages(settings, task.languages)
            if found.absent and not partial:
                raise RunError(f"it has no test data in {', '.join(found.absent)}, which partial=True leaves out")
            resources.tasks[label] = found
    return resources


def _in_languages(settings: dict[str, Any], wanted: tuple[str, ...]) -> OurTask:
    """Return the task in those of the wanted languages that have test data.

    Raises:
        GradgateError: if its data is unavailable, or it has none of the languages.
    """
    if not wanted:
        return OurTask(settings, count_rows(settings))
    spec = find_task(**_of_task(settings))
    tested = {spec.language_of(split) for split in scored(spec.places) if split not in TRAIN_AND_DEV}
    there = [language for language in wanted if language in tested]
    if not there:
        raise RunError(f"it has no test data in any of {', '.join(wanted)}")
    absent = tuple(language for language in wanted if language not in (*there, spec.source))
    rows = load_task(in_languages(spec, there)).rows["train"]
    return OurTask(settings | {"languages": ",".join(there)}, rows, absent)


@contextmanager
def _reason(resources: Resources, what: str) -> Iterator[None]:
    """Record why something is unavailable, and continue."""
    try:
        yield
    except GradgateError as error:
        resources.lacking[what] = str(error)


def describe_model(name: str) -> OurModel:
    """Describe a model's size, from its configuration alone.

    Raises:
        RunError: if the model is not available here.
    """
    from gradgate.layers import map_layers
    from gradgate.training.pretrained import load_bare

    model = load_bare(name)
    return OurModel(name, map_layers(model).layer_count, int(getattr(model.config, "hidden_size", 768)))


def count_rows(settings: dict[str, Any]) -> int:
    """Count the training examples of a task.

    Raises:
        GradgateError: if its data is unavailable.
    """
    return load_task(find_task(**_of_task(settings))).rows["train"]


def stand_in(task: PaperTask) -> str:
    """Return the embedded task that is most like a paper's task."""
    return task.sample if task.sample in task_names() else "sample"


def _find(task: PaperTask, data: Path | None, alone: bool) -> dict[str, Any]:
    """Return where a task's data is: a folder of its name under ``data``, that folder itself, or the hub."""
    known = entries().get(task.task)
    names = {plain(task.task), *(known.folder_names if known else ())}
    if data is not None:
        if not data.is_dir():
            raise UsageError(f"data={data} is not a folder. Expected a folder with a sub-folder for each task.")
        folder = next((path for path in _folders(data) if plain(path.name) in names), data if alone else None)
        if folder is not None:
            return {"task": task.task, "data": folder} if known else {"task": str(folder)}
    if known is None:
        where = f"there is no folder {task.task} in {data}" if data else f"pass data=DIR with a folder {task.task}"
        raise UsageError(f"{task.task!r} is not in the catalogue, and {where} with train, dev and test files in it")
    return {"task": task.task}


def _folders(data: Path) -> list[Path]:
    found, level = [data], [data]
    for _ in range(_DEPTH):
        level = sorted(child for path in level for child in path.iterdir() if child.is_dir())
        found += level
    return found


def _of_task(settings: dict[str, Any]) -> dict[str, Any]:
    names = {"task": "name", "data": "data"}
    return {names[name]: value for name, value in settings.items() if name in names}
