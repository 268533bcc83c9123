"""Hold dev rows out of train for a run, while the task's own dev split is scored as a test split.

The protocol of He et al. 2021 for GLUE with few examples (Table 2, https://aclanthology.org/2021.acl-long.172): a
random part of train is trained on, other rows of train select checkpoints, and the original dev split is the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from gradgate.errors import DataError, UsageError
from gradgate.tasks.data import subsample, tests_of
from gradgate.tasks.kinds import TaskData
from gradgate.tasks.kinds.base import make_rows
from gradgate.tasks.kinds.sequence import NO_TEST
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.tables import read_tables
from gradgate.tasks.types import DEV, LEAST_DEV, ORIGINAL_DEV, TEST, TRAIN, TRAIN_AND_DEV, base_of

if TYPE_CHECKING:
    from datasets import Dataset

Rows = TypeVar("Rows")
_SCORED_TOGETHER = {"question-answering": "questions about one context", "ranking": "the documents of one query"}


def check_held_out(spec: TaskSpec, dev_size: int) -> None:
    """Refuse a dev of one row, and a kind of task whose rows cannot be drawn one by one.

    Raises:
        UsageError: if one row would select, or rows that belong together would be on both sides.
    """
    if dev_size < LEAST_DEV:
        raise UsageError(f"dev_size={dev_size}: one row selects by chance. Expected {LEAST_DEV} or more; pass more.")
    if spec.kind in _SCORED_TOGETHER:
        raise UsageError(
            f"dev_size={dev_size} draws single rows, so in {spec.name} ({spec.kind}) "
            f"{_SCORED_TOGETHER[spec.kind]} would be in both train and dev. Leave it out, or pass dev_file= with rows "
            f"that you held out."
        )


def dev_as_test(data: TaskData, dev_size: int) -> TaskData:
    """Make the data's own dev split a test split; each run draws its dev from ``train`` by :func:`hold_out`.

    The split is ``test`` if there is no test split, ``dev.en`` (for the source ``en``) if only dev splits of other
    languages are tested on, and else ``original_dev``, after the existing test splits.

    Args:
        data: as it was read.
        dev_size: rows that are drawn.

    Returns:
        The data with all rows of train, an empty ``dev``, and the row counts of a run without ``train_size``. A task
        without a dev split has no further test split.

    Raises:
        UsageError: more rows than train has, or a kind of task whose rows cannot be drawn one by one.
        DataError: a test split that already has the name.
    """
    check_held_out(data.spec, dev_size)
    _check_room(len(data.train), dev_size, None)
    tests = _with_dev(data.spec, data.tests, data.dev if len(data.dev) else None)
    own = [split for split in tests if split not in data.tests]
    rows = {TRAIN: len(data.train) - dev_size, DEV: dev_size, **{split: len(table) for split, table in tests.items()}}
    note = f"dev is {dev_size:,} rows of train, drawn with the seed"
    note += "".join(f"; the task's own dev split is scored as {name}" for name in own)
    kept = [note for note in data.notes if not (own and note == NO_TEST)]
    return replace(data, dev=make_rows({}, {}), tests=tests, rows=rows, notes=(*kept, note))


def load_tests_and_dev(spec: TaskSpec, labels: Sequence[str] | None) -> TaskData:
    """Read what the model of a run with held-out dev rows is scored on, named as by :func:`dev_as_test`.

    Args:
        spec: the run's task.
        labels: the names of the model's outputs, in their order; None if they are not classes.

    Raises:
        DataError: as ``load_tests``.
    """
    tables = read_tables(spec, required=())
    tests = {split: table for split, table in tables.items() if split not in TRAIN_AND_DEV}
    return tests_of(spec, labels, _with_dev(spec, tests, tables.get(DEV)))


def hold_out(train: Dataset, dev_size: int, train_size: int | None, seed: int) -> tuple[Dataset, Dataset]:
    """Draw the rows that a run trains on, and the rows of train that are its dev.

    Both are cut from one random order of train: the training rows from its beginning, which are those of a run without
    ``dev_size``, and dev from its end. With the same seed, dev is the same for every training size.

    Args:
        train: every row.
        dev_size: rows of dev.
        train_size: rows to train on; None for all remaining rows, in the order of ``train``.
        seed: of the draw.

    Returns:
        The training rows, and dev in the order of ``train``.

    Raises:
        UsageError: fewer rows than are to be drawn.
    """
    import numpy as np

    drawn = None if train_size is None else subsample(train, train_size, seed)
    _check_room(len(train), dev_size, train_size)
    order = np.random.default_rng(seed).permutation(len(train))
    dev = train.select(np.sort(order[-dev_size:]))
    return train.select(np.sort(order[:-dev_size])) if drawn is None else drawn, dev


def _check_room(rows: int, dev_size: int, train_size: int | None) -> None:
    left = rows - (1 if train_size is None else train_size)
    if 1 <= dev_size <= left:
        return
    expected = f"pass 1 to {left}" if left > 0 else "pass a smaller train_size=, or leave dev_size= out"
    taken = "one of them must be left to train on" if train_size is None else f"train_size= takes {train_size} of them"
    raise UsageError(f"dev_size={dev_size} is not possible: the train split has {rows} rows, and {taken}; {expected}")


def _with_dev(spec: TaskSpec, tests: Mapping[str, Rows], dev: Rows | None) -> dict[str, Rows]:
    """Add the task's own dev split, if it exists, to the test splits."""
    if dev is None:
        return {**tests}
    bases = {base_of(split) for split in tests}
    without_test = f"{DEV}.{spec.source}" if bases == {DEV} else TEST
    name = ORIGINAL_DEV if TEST in bases else without_test
    if name in tests:
        raise DataError(
            f"The task {spec.name} has a test split {name!r}, and with dev_size= its dev split is scored under "
            f"this name. Rename that test split"
        )
    return {**tests, name: dev} if name == ORIGINAL_DEV else {name: dev, **tests}
