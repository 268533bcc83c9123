"""Read the raw tables of a task, from its files or from the hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.forms.base import LOOKED_AT
from gradgate.tasks.language_column import by_language
from gradgate.tasks.layout import laid_out
from gradgate.tasks.readers.files import files_of, missing, read_table, type_by_ending
from gradgate.tasks.readers.hub import check_reachable, read_split
from gradgate.tasks.readers.rows import SourceTable, renamed
from gradgate.tasks.rejected_rows import refuse_rejected
from gradgate.tasks.several_labels import label_columns
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.splits import cut_by_article, divide, is_cut, missing_parts
from gradgate.tasks.types import DEV, TRAIN_AND_DEV, MultipleChoiceOptions, base_of, scored

INDEX = "idx"
# Larger files are read only once, by the run.
_MOST_LOOKED_AT = 32 << 20
_WITH_COLUMNS = ("csv", "tsv", "jsonl")
_PLACE = "`question` of the task"
_WHY_DEV = (
    "Checkpoints are selected on dev, which must differ from train and test: move some rows of train to a file of "
    "their own, and add `dev: FILE` to the task's files or pass dev_file=FILE, dev_size=ROWS or split='80/10/10'"
)


def read_tables(spec: TaskSpec, required: Sequence[str] = TRAIN_AND_DEV) -> dict[str, SourceTable]:
    """Read every split that a run needs, ``train`` and ``dev`` first: split -> table.

    Files are read if the task has a folder, else the hub.

    Args:
        spec: the task.
        required: of train and dev, those that must be there.

    Raises:
        DataError: no place to read from, no split that is required, or anything that cannot be read.
    """
    check_place(spec)
    if is_cut(spec):
        return cut_by_article(spec, read_tests(spec))
    parts = missing_parts(spec)
    splits = spec.places
    _require(spec, (*splits, *parts), required)
    tables = {split: read_one(spec, split) for split in scored(splits)}
    if parts:
        tables = {**divide(spec, tables["train"]), **{s: t for s, t in tables.items() if s != "train"}}
    return by_language(spec, tables)


def read_tests(spec: TaskSpec) -> dict[str, SourceTable]:
    """Read what a trained model is scored on: test splits, or dev if there are none; split -> table.

    Raises:
        DataError: nothing to score, or anything that cannot be read.
    """
    check_place(spec)
    return by_language(spec, _tests(spec))


def _tests(spec: TaskSpec) -> dict[str, SourceTable]:
    parts = missing_parts(spec)
    if "test" in parts:
        return {"test": divide(spec, read_one(spec, "train"))["test"]}
    splits = [split for split in scored(spec.places) if split not in TRAIN_AND_DEV]
    if all(base_of(split) == DEV for split in splits) and DEV in spec.places:
        splits = [DEV, *splits]
    if not splits and parts:
        return {DEV: divide(spec, read_one(spec, "train"))[DEV]}
    if not splits:
        raise DataError(f"The task {spec.name} has nothing to score: no test split and no dev split. Pass test_file=")
    return {split: read_one(spec, split) for split in splits}


def check_place(spec: TaskSpec) -> None:
    """Refuse a task without data, or with a hub that does not answer."""
    if spec.folder is None and spec.hub is None:
        raise DataError(
            f"The task {spec.name} names no data; add `files:` or `hub:` to its description, or pass data=DIR"
        )
    if spec.folder is None and spec.hub is not None:
        check_reachable(spec.hub)


def read_one(spec: TaskSpec, split: str) -> SourceTable:
    """Read the table of one split, its columns under the names that the task uses."""
    if spec.folder is not None:
        path, fmt = spec.folder / (spec.files or {})[split], spec.format_of(split)
        table = _with_questions(spec, split, renamed(read_table(path, fmt), fmt.rename))
    else:
        assert spec.hub is not None
        table = renamed(read_split(spec.hub, split, spec.language_of(split)), spec.hub.rename)
    refuse_rejected(table, spec.label_column)
    return laid_out(spec, table)


def check_files(spec: TaskSpec) -> None:
    """Refuse one file for two splits, missing files, and train and dev files without a column, from their first rows.

    Checks of every row are left to :func:`read_tables`, as is the hub.

    Raises:
        DataError: as :func:`read_tables` does.
    """
    _check_different(spec)
    if spec.folder is None or is_cut(spec):
        return
    for split in scored(spec.places):
        path = spec.folder / spec.places[split]
        if not files_of(path):
            own = spec.folder / spec.name
            if files_of(own / spec.places[split]):
                raise DataError(f"{path} is missing; {own / spec.places[split]} is there. Pass data={own}")
            raise DataError(f"{missing(path)}. Put the file there, or name another one")
        if split in TRAIN_AND_DEV and path.is_file() and path.stat().st_size <= _MOST_LOOKED_AT:
            _check_columns(spec, path, split)


def _check_columns(spec: TaskSpec, path: Path, split: str) -> None:
    fmt = spec.format_of(split)
    if (fmt.type if fmt.type != "auto" else type_by_ending(path)) not in _WITH_COLUMNS:
        return
    head = laid_out(spec, renamed(read_table(path, fmt, LOOKED_AT), fmt.rename))
    if spec.kind == "generation" and not isinstance(head.columns.get(spec.text_columns[0], ("",))[0], str):
        return  # messages, of which the last is the response
    texts = zip(spec.text_columns, ("text=", "text_pair=", "text_pair="), strict=False)
    labels = label_columns(spec, head.columns) if spec.kind == "multi-label" else (spec.label_column,)
    for name, parameter in (*texts, *((label, "label=") for label in labels)):
        if len(head) and name not in head.columns:
            head.column(name, parameter)


def _check_different(spec: TaskSpec) -> None:
    """Refuse one file for two of train, dev and the test splits."""
    if spec.folder is None:
        return
    seen: dict[str, str] = {}
    for split in scored(spec.places):
        fmt = spec.format_of(split)
        path = f"{os.path.realpath(spec.folder / spec.places[split])} {fmt.part or ''} {fmt.rows or ''}"
        other = seen.setdefault(path, split)
        if other != split and (other in TRAIN_AND_DEV or split in TRAIN_AND_DEV):
            raise DataError(
                f"{spec.folder / spec.places[split]} is both {other} and {split} of the task {spec.name}; scores on "
                f"rows used for training or selection are meaningless. Pass another file for {split}, or "
                "split='80/10/10' without it"
            )


def _require(spec: TaskSpec, splits: tuple[str, ...], required: Sequence[str]) -> None:
    there = "; ".join([f"it has {', '.join(splits)}" if splits else "it has none", *spec.notes])
    if "train" in required and "train" not in splits:
        raise DataError(
            f"The task {spec.name} has no train split ({there}). Add `train: FILE` to its files or pass train_file="
        )
    if DEV in required and DEV not in splits:
        raise DataError(f"The task {spec.name} has no dev split ({there}). {_WHY_DEV}")
    _check_different(spec)
    if spec.folder is None:
        return
    for split in (split for split in TRAIN_AND_DEV if split in spec.places):
        path = spec.folder / (spec.files or {})[split]
        if not files_of(path):
            raise DataError(f"{missing(path)}. {_WHY_DEV if split == 'dev' else 'Pass another one with train_file='}")


def _with_questions(spec: TaskSpec, split: str, table: SourceTable) -> SourceTable:
    """Return the table with the questions of equal ``idx`` in the file that ``question_from`` names."""
    if not isinstance(spec.options, MultipleChoiceOptions):
        return table
    column, other_files = spec.options.question, spec.options.question_from
    file = other_files.get(split, other_files.get(base_of(split)))
    if file is None or spec.folder is None or column is None:
        return table
    other = read_table(spec.folder / file, spec.format_of(split))
    known = dict(zip(other.column(INDEX, _PLACE), other.column(column, _PLACE), strict=True))
    questions: list[Any] = []
    for row, index in enumerate(table.column(INDEX, _PLACE)):
        if index not in known:
            raise DataError(
                f"{table.place(row)}: {other.source} has no row with {INDEX} {index!r} to take a question from"
            )
        questions.append(known[index])
    return replace(table, columns={**table.columns, column: questions})
