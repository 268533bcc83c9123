"""Recognise folders and files without a task.yaml by their names, columns and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gradgate.errors import DataError, UsageError
from gradgate.tasks.catalog import CatalogEntry, at_folder, entries, plain
from gradgate.tasks.columns import find_kind, find_label, find_text
from gradgate.tasks.folders import BY_COLUMN, Splits, splits_of_file, splits_of_folder
from gradgate.tasks.forms import recognise
from gradgate.tasks.forms.base import found_name
from gradgate.tasks.forms.rows import TOKENS, tag_columns
from gradgate.tasks.language_column import choose_source, find_language_column, languages_in, may_name_languages
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.readers.rows import SourceTable, as_text, paths_in, renamed, with_paths
from gradgate.tasks.rejected_rows import refuse_rejected
from gradgate.tasks.spec import TaskSpec, build_spec, plain_name
from gradgate.tasks.split_column import find_split_column, mark_notes, unused_notes
from gradgate.tasks.types import KIND_INFO, TRAIN_AND_DEV, FileFormat, Shares, default_shares

_ENGLISH = "en"
_GENERATION = KIND_INFO["generation"]
_TEXT_AND_LABEL = 2  # columns


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


def recognise_folder(folder: Path, given: Given, source: str | None = None) -> TaskSpec:
    """Return the catalogue's task whose data the folder holds, or a task that its files imply.

    Without dev rows of their own, these are taken from train.

    Args:
        folder: any.
        given: the user's options.
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
                raise UsageError(f"source= needs the task's name: pass task={spec.name} data={folder}")
            return spec
    found = splits_of_folder(folder, source, given.files())
    if "train" not in {**found.files, **given.files()}:
        names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise DataError(
            f"{folder} has no train file: it holds {names}. Expected train.jsonl, train.tsv, train.csv or train.txt, "
            "folders train/ and test/, one folder of texts per class, a task.yaml that names the files, or train_file= "
            "and dev_file="
        )
    return _describe(folder.name, folder, found, given, source)


def recognise_file(file: Path, given: Given, source: str | None = None) -> TaskSpec:
    """Return a task with this train file; dev and test are taken from its rows unless they are there."""
    status = file.stat()
    return _recognised(file, given, source, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _recognised(file: Path, given: Given, source: str | None, stamp: tuple[int, int]) -> TaskSpec:
    """Return the task of a file; commands ask several times, and reading may take seconds. ``stamp`` tells changes."""
    return _describe(file.stem, file.parent, splits_of_file(file), given, source, one_file=True)


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


def _agrees(spec: TaskSpec, folder: Path, entry: CatalogEntry, *, by_name: bool) -> bool:
    """Return True if the first rows of train and dev, else of the first file, have the form of the catalogue's task."""
    paths = {split: folder / file for split, file in (spec.files or {}).items() if (folder / file).is_file()}
    looked_at = [split for split in TRAIN_AND_DEV if split in paths] or list(paths)[:1]
    if not by_name:
        looked_at = [split for split in looked_at if split in TRAIN_AND_DEV]
    tables = []
    try:
        for split in looked_at:
            fmt = spec.format_of(split)
            tables.append(renamed(read_table(paths[split], fmt, 1), fmt.rename))
    except DataError:
        return False
    if not tables:
        return False
    if not by_name:
        return all(tuple(table.columns) == entry.header for table in tables)
    return all(_has_columns(table, spec) for table in tables)


def _has_columns(table: SourceTable, spec: TaskSpec) -> bool:
    if not len(table) or not {*spec.text_columns, spec.label_column} <= set(table.columns):
        return False
    label = as_text(table.columns[spec.label_column][0])
    return spec.label_map is None or label in {*spec.label_map, *spec.label_map.values()}


def _describe(
    name: str, folder: Path, found: Splits, given: Given, source: str | None, *, one_file: bool = False
) -> TaskSpec:
    """Return the task that the first rows and the columns of the train split imply."""
    files = {**found.files, **given.files()}
    formats = {split: change for split, change in found.formats.items() if split not in given.files()}
    train = read_table(folder / files["train"], FileFormat.model_validate(formats.get("train", {})))
    others = {split: file for split, file in given.files().items() if split != "train"}
    column, notes = _split_column(train, sorted(set(files) - {"train", *others}), given)
    if column is not None:
        found = _by_column(found, files["train"], *column)
        files = {**found.files, **others}
        formats = {split: change for split, change in found.formats.items() if split not in others}
        train = read_table(folder / files["train"], FileFormat.model_validate(formats["train"]))
        train = replace(train, columns={name: cells for name, cells in train.columns.items() if name != column[0]})
    values: dict[str, Any] = {"name": plain_name(name), "files": files, "folder": folder, "formats": formats}
    values |= {"languages": found.languages, "source": found.source, "notes": (*found.notes, *notes)}
    values |= {"description": found.found} if found.found else {}
    language = None
    if not found.languages and may_name_languages(train):
        rest = (
            read_table(folder / file, FileFormat.model_validate(formats.get(split, {})))
            for split, file in files.items()
            if split != "train"
        )
        tables = [train, *rest]
        language = find_language_column(tables)
        if language in (given.label, given.text, given.text_pair) or len(train.columns) == _TEXT_AND_LABEL:
            language = None  # it is what the user named, or all that a row has but its text
    without = {column: cells for column, cells in train.columns.items() if column != language}
    values |= _columns(replace(train, columns=without), given)
    if "dev" not in files and (found.found or one_file):
        values["split"] = default_shares(len(train))
    if language is not None and values["kind"] != _GENERATION.name:
        codes = languages_in((table for table in tables if language in table.columns), language)
        own = choose_source(languages_in([train], language), source, train.source)
        codes_in_order = (own, *sorted(code for code in codes if code != own))
        values |= {"language_column": language, "languages": codes_in_order, "source": own}
    return build_spec(values, str(folder))


def _split_column(
    train: SourceTable, elsewhere: Sequence[str], given: Given
) -> tuple[tuple[str, dict[str, str]] | None, list[str]]:
    """Return the column that divides the rows of train, and notes on such columns that do not count."""
    own = {name for name in (given.text, given.text_pair, given.label) if name is not None}
    column = None if elsewhere or given.split else find_split_column(train, own)
    if column is not None:
        return column, []
    if elsewhere:
        return None, unused_notes(train, own, f"files name the splits, {', '.join(elsewhere)} too")
    why = f"split={given.split} divides the rows" if given.split else "no row has train there"
    return None, [*unused_notes(train, own, why), *mark_notes(train, own)]


def _by_column(found: Splits, file: str, column: str, values: Mapping[str, str]) -> Splits:
    """Return a split for each value of a column of one file."""
    own = found.formats.get("train", {})
    formats = {split: {**own, "rows": {column: value}} for split, value in values.items()}
    return replace(found, files=dict.fromkeys(values, file), formats=formats, found=BY_COLUMN)


def _columns(train: SourceTable, given: Given) -> dict[str, Any]:
    """Return the kind, form and columns of rows, as entries of a task file.

    Raises:
        DataError: a form that is not read, or columns that are ambiguous.
    """
    refuse_rejected(train, given.label)
    named = given.text is not None or given.label is not None
    form = None if named else recognise(train, given.kind)
    if form is not None and form.kind is None:
        raise DataError(
            f"{train.source} has {form.name} (columns {', '.join(map(repr, train.columns))}): {form.meaning}"
        )
    if form is not None and form.kind is not None:
        info = KIND_INFO[form.kind]
        form.read(train)  # a fault in a row is named before anything else is asked
        return {"kind": info.name, "text": info.text, "label": info.label, "form": form.name, **form.options(train)}
    if given.kind == _GENERATION.name:
        texts, label = given.text_columns or _GENERATION.text, given.label or _GENERATION.label
        return {"kind": _GENERATION.name, "text": texts, "label": label}
    if given.text is None and given.label in tag_columns(train):
        return {"kind": "token-classification", "text": found_name(train, TOKENS), "label": given.label}
    train = with_paths(
        train, [*paths_in(train), *(name for name in (given.text, given.text_pair, given.label) if name)]
    )
    text = find_text(train, given.text, given.text_pair, given.label)
    label = given.label or find_label(train, text)
    return {"kind": given.kind or find_kind(train, label), "text": text, "label": label}


def holds_responses(table: SourceTable) -> bool:
    """Return True if the columns are those of prompts and responses, or of messages."""
    return recognise(table, _GENERATION.name) is not None
