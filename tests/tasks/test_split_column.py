"""Files with the rows of all splits, which a column tells apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from gradgate.tasks.understood import understand
from gradgate.tasks.unlabelled import read_file
from support.data_forms import at, lines, queues, rows, table, texts

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
}


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_go_to_the_split_that_they_name(name: str, tmp_path: Path) -> None:
    column, words, counts = COLUMNS[name]
    path = write(tmp_path, [words[n % 4] for n in range(COUNT)], column)
    data = load_task(find_task(path))
    assert data.rows == counts
    if "test" in counts:
        held_out = next(n for n in range(4) if words[n].lower() == "test")
        assert set(data.tests["test"]["text"]) == {text for n, text in enumerate(texts(COUNT)) if n % 4 == held_out}
    found = understand(find_task(path))
    assert (found.columns[column], "a column with the split of each row" in found.form) == ("split", True)


ODD: dict[str, tuple[list[Any], str]] = {
    "another word": (at([OF_FOUR[n % 4] for n in range(COUNT)], 3, "oops"), r"t\.csv:5: 'split' is 'oops'"),
    "nothing": (at([OF_FOUR[n % 4] for n in range(COUNT)], 3, ""), r"t\.csv:5: 'split' is ''"),
    "two names": (["train", "dev", "val", "train"] * 12, r"'split' has 'train', 'dev', 'val', two of which mean"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_row_of_no_split_is_named(name: str, tmp_path: Path) -> None:
    splits, message = ODD[name]
    with pytest.raises(DataError, match=message):
        find_task(write(tmp_path, splits))


@pytest.mark.parametrize("words", [("train",), ("1", "2", "3"), ("north", "south")])
def test_other_columns_divide_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path, [words[n % len(words)] for n in range(COUNT)], "set")
    spec = find_task(path, text="message", label="queue")
    assert load_task(spec).division is not None
    assert understand(spec).columns["set"] == "not used"


def test_every_row_of_the_file_is_predicted(tmp_path: Path) -> None:
    path = write(tmp_path, [OF_FOUR[n % 4] for n in range(COUNT)])
    assert len(read_file(path, find_task(path))) == COUNT


def test_prompts_have_a_column_of_splits(tmp_path: Path) -> None:
    own = rows(
        prompt=texts(), completion=[f"yes, {text}" for text in texts()], split=[OF_FOUR[n % 4] for n in range(24)]
    )
    (tmp_path / "t.jsonl").write_text(lines(own))
    assert load_task(find_task(tmp_path / "t.jsonl")).rows == {"train": 12, "dev": 6, "test": 6}
