"""From a task's files by language to its splits.

A file ``{language}/test.tsv`` of the split ``test`` is one file for each language of the task: the split ``test.de``
is the German one. Train and dev are those of the source language, and are called ``train`` and ``dev`` alone; dev
files of other languages are ``dev.de`` and so on. A run is scored on every test split. Where a task has no test file
in any language, as WikiANN and PAWS-X without their labelled test files, the dev splits of the other languages take
their place: nothing was selected on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradgate.errors import UsageError

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec

DEV = "dev"
TRAIN_AND_DEV = ("train", DEV)
LANGUAGE = "{language}"
"""What stands for a language's code in the path of a file or in a name on the hub."""


def base_of(split: str) -> str:
    """``test`` for ``test.de``."""
    return split.partition(".")[0]


def expand(spec: TaskSpec) -> TaskSpec:
    """The task with one split for each language: of those in its folder, or of all on the hub."""
    if spec.folder is not None and spec.files is not None:
        templates = {split for split, file in spec.files.items() if LANGUAGE in file}
        files = _by_language(spec, spec.files, templates)
        present = {
            split: file
            for split, file in files.items()
            if split in (*TRAIN_AND_DEV, *spec.files) or (spec.folder / file).is_file()
        }
        return spec.model_copy(update={"files": present})
    if spec.hub is not None and spec.languages:
        hub = spec.hub
        templates = {split for split in hub.splits if hub.is_by_language(split)}
        if "test" in hub.splits:
            templates -= {"dev"}  # each split of the hub is a download, and dev of other languages would not be used
        return spec.model_copy(
            update={"hub": hub.model_copy(update={"splits": _by_language(spec, hub.splits, templates)})}
        )
    return spec


def in_languages(spec: TaskSpec, languages: Iterable[str]) -> TaskSpec:
    """The expanded task, scored in some of its languages only.

    Raises:
        UsageError: for a language that the task does not have, or that nothing is there for.
    """
    wanted = tuple(dict.fromkeys(languages))
    if not spec.languages:
        raise UsageError(f"The task {spec.name} is in one language ({spec.source}); leave --languages out")
    splits = places(spec)
    there = [spec.language_of(split) for split in scored(splits) if split not in TRAIN_AND_DEV]
    missing = [language for language in wanted if language not in there]
    if missing or not wanted:
        raise UsageError(
            f"--languages {','.join(wanted)}: {spec.folder or spec.name} has nothing to score in "
            f"{', '.join(missing) or 'no language'}; it has {', '.join(dict.fromkeys(there)) or 'no test split'}"
        )
    kept = {s: place for s, place in splits.items() if s in TRAIN_AND_DEV or spec.language_of(s) in wanted}
    update: dict[str, Any] = {"files": kept}
    if spec.folder is None and spec.hub is not None:
        update = {"hub": spec.hub.model_copy(update={"splits": kept})}
    return spec.model_copy(update={**update, "languages": wanted})


def places(spec: TaskSpec) -> dict[str, str]:
    """Split -> file or split on the hub, whichever the task is read from."""
    if spec.folder is not None:
        return spec.files or {}
    if spec.hub is None:
        return {}
    training = {split: spec.hub.training.splits[split] for split in TRAIN_AND_DEV} if spec.hub.training else {}
    return {**training, **spec.hub.splits}


def scored(splits: Iterable[str]) -> tuple[str, ...]:
    """The splits that a run reads: train and dev first, then those that it is tested on."""
    names = tuple(splits)
    tests = [split for split in names if base_of(split) not in TRAIN_AND_DEV]
    tests = tests or [split for split in names if base_of(split) == "dev" and split != "dev"]
    return (*(split for split in TRAIN_AND_DEV if split in names), *tests)


def absent_languages(spec: TaskSpec) -> tuple[str, ...]:
    """Languages of the task that the expanded one has no split in."""
    there = {spec.language_of(split) for split in places(spec)}
    return tuple(language for language in spec.languages if language not in there)


def _by_language(spec: TaskSpec, splits: dict[str, str], templates: set[str]) -> dict[str, str]:
    """Split by language -> place; only ``templates`` are there in several languages."""
    found: dict[str, str] = {}
    for split, place in splits.items():
        if split in TRAIN_AND_DEV or split not in templates:
            found[split] = place.replace(LANGUAGE, spec.source)
        if split in templates and split != "train":
            others = [language for language in spec.languages if split != "dev" or language != spec.source]
            found |= {f"{split}.{language}": place.replace(LANGUAGE, language) for language in others}
    return found
