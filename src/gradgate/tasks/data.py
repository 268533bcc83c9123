"""A task with its data read and checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from datasets import Dataset

from gradgate.errors import UsageError
from gradgate.tasks.kinds import KINDS, Kind
from gradgate.tasks.spec import TaskSpec


@dataclass(frozen=True)
class TaskData:
    """What a run trains and is scored on.

    Args:
        spec: the task.
        train, dev: rows with the columns that the task's kind gives them.
        tests: test split -> rows; empty where no test split has labels.
        labels: the outputs' names in their order; None where they are no classes.
        fingerprint: SHA-256 (hex) of every row and of the labels, whatever file or hub they came from.
        rows: split -> number of rows.
        notes: what the user should know: splits left out, blank texts.
    """

    spec: TaskSpec
    train: Dataset
    dev: Dataset
    tests: dict[str, Dataset]
    labels: tuple[str, ...] | None
    fingerprint: str
    rows: dict[str, int]
    notes: tuple[str, ...] = ()


def kind_of(spec: TaskSpec) -> Kind:
    """The kind of the task."""
    return KINDS[spec.kind]


def load_task(spec: TaskSpec) -> TaskData:
    """Read and check every row.

    Raises:
        DataError: a fault in the data, with its file and line (or its row where the source has no lines).
    """
    examples = kind_of(spec).read(spec)
    tests = {split: rows for split, rows in examples.splits.items() if split not in ("train", "dev")}
    return TaskData(
        spec=spec,
        train=examples.splits["train"],
        dev=examples.splits["dev"],
        tests=tests,
        labels=examples.labels,
        fingerprint=_fingerprint(examples.splits, examples.labels),
        rows={split: len(rows) for split, rows in examples.splits.items()},
        notes=examples.notes,
    )


def subsample(dataset: Dataset, size: int, seed: int) -> Dataset:
    """``size`` rows drawn at random without replacement, in the order drawn.

    With one seed, a smaller sample is the beginning of a larger one, so that learning curves are nested.

    Raises:
        UsageError: ``size`` is below 1 or above the number of rows.
    """
    if not 1 <= size <= len(dataset):
        raise UsageError(f"--train-size {size} is not possible: the train split has {len(dataset)} rows")
    return dataset.select(np.random.default_rng(seed).permutation(len(dataset))[:size])


def _fingerprint(splits: dict[str, Dataset], labels: tuple[str, ...] | None) -> str:
    digest = hashlib.sha256(json.dumps(labels).encode())
    for split in sorted(splits):
        rows = splits[split]
        digest.update(json.dumps([split, len(rows), rows.column_names]).encode())
        for batch in rows.iter(batch_size=10_000):
            digest.update(json.dumps([batch[name] for name in rows.column_names]).encode())
    return digest.hexdigest()
