"""Train, dev and test from the articles of one test file, for question answering without a train file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import Table

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec


from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradgate.errors import UsageError

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec


COLUMN = "article"


def is_cut(spec: TaskSpec) -> bool:
    """Whether train and dev are articles of the test file."""
    return spec.articles is not None and spec.folder is not None and "train" not in places(spec)


def cut_by_article(spec: TaskSpec, tests: dict[str, Table]) -> dict[str, Table]:
    """The first articles of the source language as ``train``, the next ones as ``dev``, the rest of each test split.

    Articles are told apart by their place in the file, which is the same in every language, so that none of them is
    in two splits.

    Raises:
        DataError: no test split in the source language, or too few articles.
    """
    assert spec.articles is not None
    train, dev = spec.articles.get("train", 0), spec.articles.get("dev", 0)
    own = next((split for split in places(spec) if split in tests and spec.language_of(split) == spec.source), None)
    if own is None:
        raise DataError(f"The task {spec.name} has no test file in {spec.source} to train on; give --train-file")
    parts = {"train": _articles(tests[own], 0, train), "dev": _articles(tests[own], train, train + dev)}
    rest = {split: _articles(table, train + dev, None) for split, table in tests.items()}
    for split, table in {**parts, **rest}.items():
        if not len(table):
            raise DataError(
                f"{table.source} has too few articles: {train} are for train and {dev} for dev, so that none is left "
                f"for {split}. Give --train-file and --dev-file"
            )
    return {**parts, **rest}


def note(spec: TaskSpec) -> str:
    """What the cut means for a reader of the scores."""
    assert spec.articles is not None
    train, dev = spec.articles.get("train", 0), spec.articles.get("dev", 0)
    return (
        f"train is the first {train} articles of the {spec.source} test file, dev the next {dev}, and every language "
        f"is tested on the articles after them: scores do not compare with those on the whole of {spec.name}"
    )


def _articles(table: Table, first: int, end: int | None) -> Table:
    numbers = table.column(COLUMN, "`articles` of the task")
    rows = [row for row, number in enumerate(numbers) if number >= first and (end is None or number < end)]
    columns = {name: [cells[row] for row in rows] for name, cells in table.columns.items()}
    return replace(table, columns=columns)


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
        UsageError: for a task in one language, or for a language that it is not in.
        DataError: for a language of the task that nothing is there to score in.
    """
    wanted = tuple(dict.fromkeys(languages))
    if not spec.languages:
        raise UsageError(f"The task {spec.name} is in one language ({spec.source}); leave --languages out")
    unknown = [language for language in wanted if language not in spec.languages]
    if unknown or not wanted:
        raise UsageError(
            f"--languages {','.join(wanted)}: the task {spec.name} has no {', '.join(unknown) or 'such language'}; its "
            f"languages are {', '.join(spec.languages)}"
        )
    splits = places(spec)
    there = [spec.language_of(split) for split in scored(splits) if split not in TRAIN_AND_DEV]
    missing = [language for language in wanted if language not in there]
    if missing:
        raise DataError(
            f"--languages {','.join(wanted)}: {spec.folder or spec.name} has nothing to score in {', '.join(missing)}; "
            f"it has {', '.join(dict.fromkeys(there)) or 'no test split'}"
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
