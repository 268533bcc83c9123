"""Dev rows held out of train: which rows they are, what becomes of the task's own dev split, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import DataError, UsageError
from gradgate.tasks import TaskData, find_task, load_task, subsample
from gradgate.tasks.held_out import check_held_out, dev_as_test, hold_out
from gradgate.tasks.languages import average

TEN = Dataset.from_dict({"row": list(range(10))})


def rows(split: Dataset) -> list[int]:
    found: list[int] = split["row"][:]
    return found


def texts(split: Dataset) -> list[str]:
    found: list[str] = split["text"][:]
    return found


def write(folder: Path, splits: Sequence[str], count: int = 10, **entries: Any) -> TaskData:
    """A task of so many rows a split, whose texts name their split and row."""
    for split in splits:
        lines = [{"text": f"{split} {row}", "label": "good" if row % 2 else "bad"} for row in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = {split: f"{split}.jsonl" for split in splits}
    (folder / "task.yaml").write_text(json.dumps({"files": files} | entries))
    return load_task(find_task(str(folder)), required=("train",))


def test_the_rows_that_a_seed_draws_are_known() -> None:
    """The order of numpy's default generator with seed 0 is 4, 6, 2, 7, 3, 5, 9, 0, 8, 1."""
    train, dev = hold_out(TEN, 3, 4, seed=0)
    assert (rows(train), rows(dev)) == ([4, 6, 2, 7], [0, 1, 8])
    rest, same = hold_out(TEN, 3, None, seed=0)
    assert (rows(rest), rows(same)) == ([2, 3, 4, 5, 6, 7, 9], [0, 1, 8])
    assert rows(hold_out(TEN, 3, 4, seed=1)[1]) != [0, 1, 8]


@given(st.data())
def test_train_and_dev_share_no_row_and_are_those_of_the_seed_and_the_size(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 60))
    dev_size = data.draw(st.integers(1, count - 1))
    train_size = data.draw(st.none() | st.integers(1, count - dev_size))
    seed = data.draw(st.integers(0, 2**32 - 1))
    whole = Dataset.from_dict({"row": list(range(count))})
    train, dev = (rows(split) for split in hold_out(whole, dev_size, train_size, seed))
    assert (len(train), len(dev)) == (count - dev_size if train_size is None else train_size, dev_size)
    assert len({*train, *dev}) == len(train) + len(dev)
    again, rest = hold_out(whole, dev_size, train_size, seed), hold_out(whole, dev_size, None, seed)
    assert [rows(split) for split in again] == [train, dev]
    assert rows(rest[1]) == dev
    assert set(train) <= set(rows(rest[0]))
    if train_size is not None:
        assert train == rows(subsample(whole, train_size, seed))


@pytest.mark.parametrize(
    ("dev_size", "train_size", "message"),
    [
        (10, None, r"dev_size=10 is not possible: .* 10 rows, and one of them must be left to .*; pass 1 to 9$"),
        (5, 6, r"dev_size=5 is not possible: .* 10 rows, and train_size= takes 6 of them; pass 1 to 4$"),
        (1, 10, r"train_size= takes 10 of them; pass a smaller train_size=, or leave dev_size= out$"),
        (1, 11, r"train_size=11 is not possible: the train split has 10 rows"),
        (0, 4, r"dev_size=0 is not possible: .*; pass 1 to 6$"),
    ],
)
def test_more_rows_than_are_left_are_refused(dev_size: int, train_size: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hold_out(TEN, dev_size, train_size, seed=0)


@pytest.mark.parametrize(
    ("splits", "tests"),
    [
        (("train", "dev"), {"test": "dev"}),
        (("train", "dev", "mismatched"), {"test": "dev", "mismatched": "mismatched"}),
        (("train", "dev", "test"), {"test": "test", "original_dev": "dev"}),
        (("train", "test"), {"test": "test"}),
        (("train",), {}),
    ],
)
def test_the_tasks_own_dev_is_a_test_split(tmp_path: Path, splits: Sequence[str], tests: dict[str, str]) -> None:
    read = write(tmp_path, splits)
    data = dev_as_test(read, 4)
    found = {name: texts(split) for name, split in data.tests.items()}
    assert found == {name: [f"{origin} {row}" for row in range(10)] for name, origin in tests.items()}
    assert list(found) == list(tests)
    assert data.rows == {"train": 6, "dev": 4, **dict.fromkeys(tests, 10)}
    assert (len(data.train), len(data.dev), data.fingerprint) == (10, 0, read.fingerprint)
    told = [note for note in data.notes if note.startswith("dev is 4 rows of train, drawn with the seed")]
    own = [name for name, origin in tests.items() if origin == "dev"]
    assert [note.partition("scored as ")[2] for note in told] == (own or [""])
    assert ("no labelled test split: only dev is scored" in data.notes) == (not tests)


def test_a_task_in_several_languages_has_its_dev_beside_its_languages(tmp_path: Path) -> None:
    files = {"train": "train.jsonl", "dev": "dev.jsonl", "test": "test.{language}.jsonl"}
    data = write(tmp_path, ("train", "dev", "test.en", "test.de"), files=files, languages=["en", "de"])
    held = dev_as_test(data, 2)
    assert list(held.tests) == ["test.en", "test.de", "original_dev"]
    assert held.languages == {"train": "en", "dev": "en", "test.en": "en", "test.de": "de"}
    scores = {"dev": 0.0, "test.en": 0.8, "test.de": 0.6, "original_dev": 0.1}
    means = average({split: {"accuracy": score} for split, score in scores.items()}, held.languages, "en")
    assert means["all"]["accuracy"] == pytest.approx(0.7)


def test_where_dev_is_scored_in_other_languages_the_source_is_scored_on_its_own(tmp_path: Path) -> None:
    files = {"train": "train.jsonl", "dev": "dev.{language}.jsonl"}
    data = write(tmp_path, ("train", "dev.en", "dev.de"), files=files, languages=["en", "de"])
    held = dev_as_test(data, 2)
    assert list(held.tests) == ["dev.en", "dev.de"]
    scores = {"dev": 0.0, "dev.en": 0.8, "dev.de": 0.6}
    means = average({split: {"accuracy": score} for split, score in scores.items()}, held.languages, "en")
    assert (means["all"]["accuracy"], means["zero-shot"]["accuracy"]) == (pytest.approx(0.7), 0.6)


def test_a_test_split_with_the_name_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path, ("train", "dev", "test", "original_dev"))
    with pytest.raises(DataError, match=r"has a test split 'original_dev', .*Rename that test split"):
        dev_as_test(data, 2)


def test_more_rows_than_train_has_are_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"dev_size=10 is not possible"):
        dev_as_test(write(tmp_path, ("train", "dev")), 10)


@pytest.mark.parametrize("task", ["xquad", "wpr"])
def test_kinds_whose_rows_belong_together_are_refused(task: str) -> None:
    with pytest.raises(
        UsageError,
        match=rf"dev_size=5 draws single rows, so in {task} \(.* would be in both train and dev\. Leave it out",
    ):
        check_held_out(find_task(task), 5)
