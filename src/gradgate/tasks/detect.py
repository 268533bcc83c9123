"""Recognise folders and files without a task.yaml by their names, columns and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import DataError, UsageError
from gradgate.tasks.catalog import Entry, at_folder, entries, plain
from gradgate.tasks.columns import find_kind, find_label, find_text
from gradgate.tasks.languages import INDO_EUROPEAN
from gradgate.tasks.readers.files import ENDINGS, peek, read_table
from gradgate.tasks.readers.rows import Table, as_text, renamed
from gradgate.tasks.readers.turns import MESSAGES
from gradgate.tasks.spec import TaskSpec, build_spec, plain_name
from gradgate.tasks.types import DEFAULT_SHARES, KIND_INFO, TRAIN_AND_DEV, FileFormat, Shares

TRAIN_STEMS = ("train", "training")
_ENGLISH = "en"
_GENERATION = KIND_INFO["generation"]
DEV_STEMS = ("dev", "val", "valid", "validation", "dev_matched", "validation_matched")


@dataclass(frozen=True)
class Given:
    """The user's options besides the task's name; files are absolute paths."""

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    kind: str | None = None
    metric: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    split: Shares | None = None

    @property
    def text_columns(self) -> str | tuple[str, str] | None:
        """The column of the text, or the two of a pair."""
        return (self.text, self.text_pair) if self.text and self.text_pair else self.text

    def files(self) -> dict[str, str]:
        """Return the files of the user: split -> path."""
        files = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}


@dataclass(frozen=True)
class _Files:
    """The data files of a folder by their names: split -> file name, and of which languages they are."""

    splits: dict[str, str]
    languages: tuple[str, ...] = ()
    source: str = _ENGLISH


def recognise_folder(folder: Path, given: Given, source: str | None = None) -> TaskSpec:
    """Return the catalogue's task whose data the folder holds, or a task that its files imply.

    Args:
        source: language of train and dev; by default English if the folder has it, else the one that it has.

    Raises:
        UsageError: a source for a catalogue's task in several languages, which needs its name.
        DataError: no train file, two files for one split, or ambiguous columns.
    """
    named = [entry for entry in entries().values() if plain(folder.name) in entry.folder_names]
    for entry in (*named, *(entry for entry in entries().values() if entry.header)):
        spec = at_folder(entry.spec, folder)
        if _agrees(spec, folder, entry, by_name=entry in named):
            if source is not None and spec.languages:
                raise UsageError(f"source= goes with a task's name: task={spec.name} data={folder}")
            return spec
    sorted_files = _files(folder, source)
    files = {**sorted_files.splits, **given.files()}
    if "train" not in files:
        names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise DataError(
            f"{folder} has no train file: it holds {names}. Expected train.jsonl, train.tsv, train.csv or train.txt, "
            "a task.yaml that names the files, or train_file= and dev_file="
        )
    spec = _describe(folder.name, folder, files, given)
    return spec.model_copy(update={"languages": sorted_files.languages, "source": sorted_files.source})


def recognise_file(file: Path, given: Given) -> TaskSpec:
    """Return a task with this train file; dev and test are taken from its rows unless dev has a file of its own."""
    files = {"train": file.name, **given.files()}
    spec = _describe(file.stem, file.parent, files, given)
    return spec if "dev" in files else spec.model_copy(update={"split": DEFAULT_SHARES})


def named_language(file: Path, language: str | None) -> bool:
    """Return True if the name of a file, or of its folder, ends in the code of a language."""
    return language is not None and language in (re.split(r"[._-]", file.stem)[-1], file.parent.name)


def check_source(source: str | None, where: str) -> None:
    """Refuse a source language for data that name no language, as their rows would only be called otherwise.

    Raises:
        UsageError: for any but English, which such rows are taken to be in.
    """
    if source not in (None, _ENGLISH):
        raise UsageError(
            f"source={source}: nothing in {where} says that its rows are in {source}. Name its files "
            f"train.{source}.csv and dev.{source}.csv, or describe the data in a task.yaml with `source: {source}`; or "
            f"leave source= out"
        )


def _agrees(spec: TaskSpec, folder: Path, entry: Entry, *, by_name: bool) -> bool:
    """Return True if the first rows of train and dev, else of the first file, have the form of the catalogue's task."""
    paths = {split: folder / file for split, file in (spec.files or {}).items() if (folder / file).is_file()}
    looked_at = [split for split in TRAIN_AND_DEV if split in paths] or list(paths)[:1]
    if not by_name:
        looked_at = [split for split in looked_at if split in TRAIN_AND_DEV]
    tables = []
    try:
        for split in looked_at:
            fmt = spec.format_of(split)
            tables.append(renamed(peek(paths[split], fmt), fmt.rename))
    except DataError:
        return False
    if not tables:
        return False
    if not by_name:
        return all(tuple(table.columns) == entry.header for table in tables)
    return all(_has_columns(table, spec) for table in tables)


def _has_columns(table: Table, spec: TaskSpec) -> bool:
    if not len(table) or not {*spec.text_columns, spec.label_column} <= set(table.columns):
        return False
    label = as_text(table.columns[spec.label_column][0])
    return spec.label_map is None or label in {*spec.label_map, *spec.label_map.values()}


def _files(folder: Path, source: str | None) -> _Files:
    """Infer the files of a folder from their names; ``test.csv`` next to ``test.de.csv`` is in the source language."""
    found = _named_files(folder)
    codes = {language for _, language in found if language is not None}
    if not codes:
        check_source(source, str(folder))
        return _Files({split: file for (split, _), file in found.items()})
    source = source or _source(folder, found)
    splits: dict[str, str] = {}
    for (split, language), file in found.items():
        own = language in (None, source)
        if split == "train" and not own:
            continue  # a task is trained only in its source
        name = split if own and split in TRAIN_AND_DEV else f"{split}.{language or source}"
        if name in splits:
            raise _several(folder, name, [splits[name], file])
        splits[name] = file
    order = sorted(splits, key=lambda split: (split != "train", split != "dev", split))
    return _Files({split: splits[split] for split in order}, (source, *sorted(codes - {source})), source)


def _source(folder: Path, found: Mapping[tuple[str, str | None], str]) -> str:
    """Return English, unless the only train file is in another language."""
    trained = [language for split, language in found if split == "train"]
    if not trained or None in trained or "en" in trained:
        return "en"
    if len(trained) > 1:
        raise DataError(
            f"{folder} has train files in {', '.join(map(str, trained))}. Say in which language to train, as with "
            f"source={trained[0]}"
        )
    return str(trained[0])


def _named_files(folder: Path) -> dict[tuple[str, str | None], str]:
    """Map (split, language or None) to files; ``test_mismatched.tsv`` is the test split ``test_mismatched``."""
    found: dict[tuple[str, str | None], list[str]] = {}
    below = [path for sub in folder.iterdir() if sub.is_dir() and _is_language(sub.name) for path in sub.iterdir()]
    for path in sorted([*folder.iterdir(), *below]):
        if path.is_symlink() and not path.exists():
            raise DataError(f"{path} is a link to {path.readlink()}, which is not there. Fix or remove the link")
        if not path.is_file() or path.suffix.lower() not in (*ENDINGS, ".txt"):
            continue
        stem, language = _language_in(path.stem.lower().replace("-", "_"))
        if path.parent != folder:
            language = path.parent.name
        split = "train" if stem in TRAIN_STEMS else "dev" if stem in DEV_STEMS else stem
        if split in TRAIN_AND_DEV or split == "test" or split.startswith("test_"):
            found.setdefault((split, language), []).append(path.relative_to(folder).as_posix())
    for (split, language), names in found.items():
        if len(names) > 1:
            raise _several(folder, split if language is None else f"{split} in {language}", names)
    order = sorted(found, key=lambda key: (key[0] != "train", key[0] != "dev", key[0], key[1] or ""))
    return {key: found[key][0] for key in order}


def _language_in(stem: str) -> tuple[str, str | None]:
    """Split ``test.de`` and ``test_de`` into ``("test", "de")``; None if a name does not end in a language code."""
    split, _, code = stem.replace(".", "_").rpartition("_")
    named = _is_language(code) and split in (*TRAIN_STEMS, *DEV_STEMS, "test")
    return (split, code) if named else (stem, None)


def _is_language(code: str) -> bool:
    return code in INDO_EUROPEAN or any(code in entry.spec.languages for entry in entries().values())


def _several(folder: Path, split: str, names: list[str]) -> DataError:
    return DataError(
        f"{folder} has {len(names)} files for {split}: {', '.join(names)}. Keep one, name one with "
        "train_file=, dev_file= or test_file=, or list the files in a task.yaml"
    )


def _describe(name: str, folder: Path, files: dict[str, str], given: Given) -> TaskSpec:
    train = read_table(folder / files["train"], FileFormat())
    named = given.text is not None or given.label is not None
    if given.kind == _GENERATION.name or (given.kind is None and not named and holds_responses(train)):
        columns = {"text": given.text_columns or _GENERATION.text, "label": given.label or _GENERATION.label}
        described = {"name": plain_name(name), "kind": _GENERATION.name, "files": files, "folder": folder}
        return build_spec({**described, **columns}, str(folder))
    text = find_text(train, given.text, given.text_pair, given.label)
    label = given.label or find_label(train, text)
    values: dict[str, Any] = {
        "name": plain_name(name),
        "kind": given.kind or find_kind(train, label),
        "text": text,
        "label": label,
        "files": files,
        "folder": folder,
    }
    return build_spec(values, str(folder))


def holds_responses(table: Table) -> bool:
    """Return True if the columns are those of prompts and responses, or of messages."""
    there = set(table.columns)
    return MESSAGES in there or ("prompt" in there and bool({"response", "completion"} & there))
