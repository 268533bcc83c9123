"""Files with the rows of all splits, which a column tells apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from gradgate.tasks.understood import understand
from gradgate.tasks.unlabelled import read_file
from support.ticket_rows import at, lines, queues, rows, table, texts

COUNT = 48
OF_FOUR = ("train", "train", "test", "dev")


def write(folder: Path, splits: list[Any], column: str = "split") -> Path:
    own = [list(row) for row in zip(texts(COUNT), queues(COUNT), splits, strict=True)]
    (folder / "t.csv").write_text(table(["message", "queue", column], own))
    return folder / "t.csv"


COLUMNS: dict[str, tuple[str, tuple[str, ...], dict[str, int]]] = {
    "all three": ("split", OF_FOUR, {"train": 24, "dev": 12, "test": 12}),
    "other names": ("Set", ("Train", "Train", "Validation", "Test"), {"train": 24, "dev": 12, "test": 12}),
    "no dev": ("partition", ("train", "train", "test", "train"), {"train": 32, "dev": 4, "test": 12}),
    "no test": ("subset", ("training", "val", "training", "val"), {"train": 24, "dev": 24}),
    "eval selects": ("split", ("train", "train", "eval", "train"), {"train": 36, "dev": 12}),
    "evaluation next to test": (
        "Split",
        ("Training", "Evaluation", "Test", "Training"),
        {"train": 24, "dev": 12, "test": 12},
    ),
    "eval next to dev": ("split", ("train", "train", "eval", "devel"), {"train": 24, "dev": 12, "eval": 12}),
    "held out": ("split", ("train", "train", "held-out", "development"), {"train": 24, "dev": 12, "test": 12}),
    "holdout next to test": (
        "split",
        ("train", "holdout", "test", "dev"),
        {"train": 12, "dev": 12, "test": 12, "holdout": 12},
    ),
    "a test of its own": (
        "split",
        ("train", "dev", "test", "Test Hard"),
        {"train": 12, "dev": 12, "test": 12, "test_hard": 12},
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_go_to_the_split_that_they_name(name: str, tmp_path: Path) -> None:
    column, words, counts = COLUMNS[name]
    path = write(tmp_path, [words[n % 4] for n in range(COUNT)], column)
    data = load_task(find_task(path))
    assert data.rows == counts
    if "test" in counts:
        held_out = next(n for n in range(4) if words[n].lower() in ("test", "held-out"))
        assert set(data.tests["test"]["text"]) == {text for n, text in enumerate(texts(COUNT)) if n % 4 == held_out}
    found = understand(find_task(path))
    assert (found.columns[column], "a column with the split of each row" in found.form) == ("split", True)


ODD: dict[str, tuple[list[Any], str]] = {
    "nothing": (at([OF_FOUR[n % 4] for n in range(COUNT)], 3, ""), r"t\.csv:5: 'split' is ''"),
    "two names": (["train", "dev", "val", "train"] * 12, r"'split' has 'train', 'dev', 'val', two of which mean"),
    "two names that may mean dev": (["train", "eval", "evaluation", "test"] * 12, r"two of which mean the same split"),
    "many of another word": (
        ["train", "train", "test", "unused"] * 12,
        r"t\.csv:5: 'split' is 'unused', which names no split, but other rows have 'train', 'test'\. "
        r"Give each row train, dev \(or val, validation, eval\) or test \(or holdout, .* or pass split=80/10/10",
    ),
    "train and another word": (["train", "tune"] * 24, r"t\.csv:3: 'split' is 'tune', .* have 'train'"),
    "another word for train": (["fit", "dev", "test"] * 16, r"t\.csv:2: 'split' is 'fit', .* have 'dev', 'test'"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_row_of_no_split_is_named(name: str, tmp_path: Path) -> None:
    splits, message = ODD[name]
    with pytest.raises(DataError, match=message):
        find_task(write(tmp_path, splits))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train",), None),
        (("1", "2", "3"), None),
        (("north", "south"), None),
        (
            ("dev", "test"),
            "the column 'set' is not used, and 48 rows of train have 'dev', 'test' there: no row has train",
        ),
        (("trains", "test"), "24 rows of train have 'test' there"),
    ],
)
def test_other_columns_divide_nothing(words: tuple[str, ...], said: str | None, tmp_path: Path) -> None:
    path = write(tmp_path, [words[n % len(words)] for n in range(COUNT)], "set")
    spec = find_task(path, text="message", label="queue")
    found = load_task(spec)
    assert found.division is not None
    assert understand(spec).columns["set"] == "not used"
    assert ("the column 'set' is not used" in " ".join(found.notes)) == (said is not None)
    assert said is None or said in " ".join(understand(spec).notes)


@pytest.mark.parametrize(
    ("given", "column", "words"),
    [
        ({"split": "80/10/10"}, "split", OF_FOUR),
        ({"split": "80/10/10"}, "split", ("train", "unused")),
        ({}, "is_test", ("False", "False", "True")),
    ],
)
def test_rows_that_are_divided_in_spite_of_a_column_are_told(
    given: dict[str, Any], column: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    path = write(tmp_path, [words[n % len(words)] for n in range(COUNT)], column)
    data = load_task(find_task(path, text="message", label="queue", **given))
    assert data.division is not None
    assert (f"the column {column!r} is not used" in " ".join(data.notes)) == ("unused" not in words)


def test_held_out_rows_next_to_files_of_splits_are_told(tmp_path: Path) -> None:
    write(tmp_path, [OF_FOUR[n % 4] for n in range(COUNT)]).rename(tmp_path / "train.csv")
    write(tmp_path, ["dev"] * COUNT).rename(tmp_path / "dev.csv")
    notes = " ".join(load_task(find_task(tmp_path, text="message", label="queue")).notes)
    assert "24 rows of train have 'test', 'dev' there: files name the splits, dev too" in notes


def test_the_column_that_fits_divides_the_rows(tmp_path: Path) -> None:
    own = rows(
        message=texts(COUNT),
        queue=queues(COUNT),
        dataset=[("train", "bus")[n % 2] for n in range(COUNT)],
        split=[OF_FOUR[n % 4] for n in range(COUNT)],
    )
    (tmp_path / "t.jsonl").write_text(lines(own))
    spec = find_task(tmp_path / "t.jsonl", text="message", label="queue")
    assert load_task(spec).rows == {"train": 24, "dev": 12, "test": 12}
    own = [{**row, "dataset": "train" if n else "test"} for n, row in enumerate(own)]
    (tmp_path / "t.jsonl").write_text(lines(own))
    with pytest.raises(DataError, match=r"t\.jsonl:1 is test by its column 'dataset', but train by 'split'"):
        find_task(tmp_path / "t.jsonl")


def test_a_column_that_is_the_label_divides_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, [OF_FOUR[n % 4] for n in range(COUNT)], "phase")
    assert load_task(find_task(path, text="message", label="phase")).labels == ("dev", "test", "train")


def test_every_row_of_the_file_is_predicted(tmp_path: Path) -> None:
    path = write(tmp_path, [OF_FOUR[n % 4] for n in range(COUNT)])
    assert len(read_file(path, find_task(path))) == COUNT


def test_prompts_have_a_column_of_splits(tmp_path: Path) -> None:
    own = rows(
        prompt=texts(), completion=[f"yes, {text}" for text in texts()], split=[OF_FOUR[n % 4] for n in range(24)]
    )
    (tmp_path / "t.jsonl").write_text(lines(own))
    assert load_task(find_task(tmp_path / "t.jsonl")).rows == {"train": 12, "dev": 6, "test": 6}
