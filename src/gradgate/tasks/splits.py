"""Train, dev and test from the articles of one test file, for question answering without a train file."""

from __future__ import annotations

from dataclasses import replace

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import Table
from gradgate.tasks.spec import TaskSpec

COLUMN = "article"


def is_cut(spec: TaskSpec) -> bool:
    """Whether train and dev are articles of the test file."""
    return spec.articles is not None and spec.folder is not None and "train" not in spec.places


def cut_by_article(spec: TaskSpec, tests: dict[str, Table]) -> dict[str, Table]:
    """The first articles of the source language as ``train``, the next ones as ``dev``, the rest of each test split.

    Articles are told apart by their place in the file, which is the same in every language, so that none of them is
    in two splits.

    Raises:
        DataError: no test split in the source language, or too few articles.
    """
    assert spec.articles is not None
    train, dev = spec.articles.get("train", 0), spec.articles.get("dev", 0)
    own = next((split for split in spec.places if split in tests and spec.language_of(split) == spec.source), None)
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
