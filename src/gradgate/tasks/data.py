"""Read and check the data of a task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradgate.errors import DataError, UsageError
from gradgate.tasks import splits
from gradgate.tasks.kinds import KINDS, Kind, TaskData
from gradgate.tasks.kinds.base import PLACE, make_rows
from gradgate.tasks.kinds.generation import NO_TEST as NO_RESPONSES
from gradgate.tasks.kinds.generation import Generation
from gradgate.tasks.kinds.sequence import NO_TEST
from gradgate.tasks.languages import absent_languages
from gradgate.tasks.readers.files import files_of
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.tables import check_place, read_one, read_tables, read_tests
from gradgate.tasks.types import LEAST_DEV, TRAIN_AND_DEV, GenerationOptions, base_of

if TYPE_CHECKING:
    from datasets import Dataset

_WITHOUT_ONE_COLUMN = ("multi-label", "generation", "question-answering")
"""Kinds whose labels or answers may be in several columns, or inside of another."""


def kind_of(spec: TaskSpec) -> Kind:
    """Return the kind of the task."""
    if isinstance(spec.options, GenerationOptions):
        return Generation(spec.options)
    return KINDS[spec.kind]


def load_task(spec: TaskSpec, required: Sequence[str] = TRAIN_AND_DEV) -> TaskData:
    """Read and check every row.

    Args:
        spec: the task.
        required: of train and dev, those that must be there; ``dev`` is empty if it is absent.

    Raises:
        DataError: a fault in the data, with its file and line (or its row if the source has no lines).
    """
    tables = read_tables(spec, required)
    examples = kind_of(spec).read(spec, tables)
    tests = {split: rows for split, rows in examples.splits.items() if split not in TRAIN_AND_DEV}
    rows = {split: len(rows) for split, rows in examples.splits.items()}
    division = splits.division_note(spec, rows)
    return TaskData(
        spec=spec,
        train=examples.splits["train"],
        dev=examples.splits.get("dev", make_rows({}, {})),
        tests=tests,
        labels=examples.labels,
        fingerprint=_fingerprint(examples.splits, examples.labels),
        rows=rows,
        notes=(
            *absent_notes(spec),
            *([division] if division else []),
            *reading_notes(tables),
            *examples.notes,
        ),
        division=division,
    )


def load_to_train(spec: TaskSpec) -> TaskData:
    """Read and check every row of a task that is trained on.

    Raises:
        DataError: as ``load_task``, or a dev split of one row.
    """
    data = load_task(spec)
    if len(data.dev) < LEAST_DEV:
        raise DataError(
            f"The dev split of the task {spec.name} has one row. Expected {LEAST_DEV} or more, as checkpoints and "
            f"methods are selected on dev, and one row selects by chance. Add rows, or pass dev_size= or split= to "
            f"take them from train"
        )
    return data


def _check_labelled(spec: TaskSpec, tables: dict[str, SourceTable]) -> None:
    """Refuse files without the column of labels: it may have another name there."""
    absent = (table for table in tables.values() if spec.label_column not in table.columns)
    table = next(absent, None)
    if table is not None and spec.kind not in _WITHOUT_ONE_COLUMN:
        table.column(spec.label_column, "label=, or pass a test_file= with labels")


def load_tests(spec: TaskSpec, labels: Sequence[str] | None) -> TaskData:
    """Read what a trained model is scored on; ``train`` and ``dev`` are empty.

    Args:
        labels: the names of the model's outputs, in their order; None if they are not classes.

    Raises:
        DataError: as ``load_task``, or a label that the model does not have.
    """
    tables = read_tests(spec)
    if splits.is_cut(spec):
        tables = {split: table for split, table in read_tables(spec).items() if split not in TRAIN_AND_DEV}
    return tests_of(spec, labels, tables)


def tests_of(spec: TaskSpec, labels: Sequence[str] | None, tables: dict[str, SourceTable]) -> TaskData:
    """Build the data of :func:`load_tests` from tables that were read already."""
    if labels is not None:
        spec = spec.model_copy(update={"label_map": _label_map(spec, labels)})
    examples = kind_of(spec).read(spec, tables)
    if labels is not None and examples.labels is not None and examples.labels != tuple(labels):
        raise DataError(
            f"The label_map of {spec.name} makes the labels {', '.join(examples.labels)}, but the outputs of the model "
            f"are {', '.join(labels)}; expected the same in the same order. Use the label_map of its training"
        )
    if not examples.splits:
        _check_labelled(spec, tables)
        why = "; ".join(note for note in examples.notes if note not in (NO_TEST, NO_RESPONSES))
        raise DataError(f"The task {spec.name} has nothing to score: {why}. Pass a test_file= with labels")
    nothing = make_rows({}, {})
    return TaskData(
        spec=spec,
        train=nothing,
        dev=nothing,
        tests=examples.splits,
        labels=examples.labels,
        fingerprint=_fingerprint(examples.splits, examples.labels),
        rows={split: len(rows) for split, rows in examples.splits.items()},
        notes=(*absent_notes(spec), *reading_notes(tables), *examples.notes),
    )


def _label_map(spec: TaskSpec, labels: Sequence[str]) -> dict[str, str]:
    """Return the names of labels, and what the task writes for them, in the order of the model's outputs."""
    place = {name: number for number, name in enumerate(labels)}
    raw = {cell: name for cell, name in (spec.label_map or {}).items() if name in place}
    named = {name: name for name in labels} | raw  # a name may stand for another label in the data
    return dict(sorted(named.items(), key=lambda pair: place[pair[1]]))


def count_rows(spec: TaskSpec) -> dict[str, dict[str, int]]:
    """Count the rows of every existing split by language: split -> language -> rows.

    Unlabelled splits count too, and dev in languages that it does not select in.

    Raises:
        DataError: no split exists, or one cannot be read.
    """
    check_place(spec)
    counts: dict[str, dict[str, int]] = {}
    if spec.language_column is not None:
        return _counted(spec, read_tables(spec))
    if splits.missing_parts(spec):
        return {split: {spec.language_of(split): len(table)} for split, table in read_tables(spec).items()}
    for split, place in spec.places.items():
        if split in TRAIN_AND_DEV and spec.folder is not None and not files_of(spec.folder / place):
            continue
        counts.setdefault(base_of(split), {})[spec.language_of(split)] = len(read_one(spec, split))
    if not counts:
        raise DataError(f"{spec.folder} has no file of the task {spec.name}; its files are {_listed(spec)}")
    return counts


def _counted(spec: TaskSpec, tables: dict[str, SourceTable]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for split, table in tables.items():
        counts.setdefault(base_of(split), {})[spec.language_of(split)] = len(table)
    return counts


def _listed(spec: TaskSpec) -> str:
    return ", ".join((spec.files or {}).values()) or "given with train_file=, dev_file= and test_file="


def absent_notes(spec: TaskSpec) -> list[str]:
    """Return the notes on files that no split uses, and on languages of the task that have no files."""
    absent = absent_languages(spec)
    missing = [f"not scored in {', '.join(absent)}: {spec.folder} has no such files"] if absent else []
    return [*spec.notes, *missing]


def reading_notes(tables: dict[str, SourceTable]) -> list[str]:
    """Return the notes on how the files of the splits were read, each once."""
    return list(dict.fromkeys(note for table in tables.values() for note in table.notes))


def subsample(dataset: Dataset, size: int, seed: int) -> Dataset:
    """Draw ``size`` rows at random without replacement, in the order drawn.

    With the same seed, a smaller sample is the beginning of a larger one, so that learning curves are nested.

    Raises:
        UsageError: ``size`` is below 1 or above the number of rows.
    """
    import numpy as np

    if not 1 <= size <= len(dataset):
        raise UsageError(
            f"train_size={size} is not possible: the train split has {len(dataset)} rows. Pass that many or fewer"
        )
    return dataset.select(np.random.default_rng(seed).permutation(len(dataset))[:size])


def _fingerprint(splits: dict[str, Dataset], labels: tuple[str, ...] | None) -> str:
    digest = hashlib.sha256(json.dumps(labels).encode())
    for split in sorted(splits):
        rows = splits[split]
        names = [name for name in rows.column_names if name != PLACE]
        digest.update(json.dumps([split, len(rows), names]).encode())
        for batch in rows.iter(batch_size=10_000):
            digest.update(json.dumps([batch[name] for name in names]).encode())
    return digest.hexdigest()
