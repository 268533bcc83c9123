"""Rows that a person has in hand become a task of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradgate as gg
from gradgate.api.data import GivenTask, model_name
from gradgate.errors import UsageError
from gradgate.settings.values import several
from gradgate.tasks import count_rows, find_task, load_task

ROWS: list[dict[str, Any]] = [
    {"text": f"this is a {mood} day {n}", "label": mood} for n in range(20) for mood in ("good", "bad")
]
CLASSES = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])})


def as_dataset(rows: list[dict[str, Any]]) -> datasets.Dataset:
    numbered = [{**row, "label": CLASSES["label"].str2int(row["label"])} for row in rows]
    return datasets.Dataset.from_list(numbered, features=CLASSES)


TABLES = {
    "list of dicts": ROWS,
    "DataFrame": pd.DataFrame(ROWS, index=range(7, 47)),
    "Dataset with classes": as_dataset(ROWS),
    "Arrow table": pa.Table.from_pylist(ROWS),
}


def written(task: object, out: Path) -> str:
    given = GivenTask.of(task, out)
    given.write()
    assert given.name is not None
    return given.name


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_a_table_is_divided_as_one_file_is(rows: object, tmp_path: Path) -> None:
    name = written(rows, tmp_path / "runs/x")
    assert Path(name).is_relative_to(tmp_path / "runs/x-data")
    spec = find_task(name)
    assert {split: sum(counts.values()) for split, counts in count_rows(spec).items()} == {
        "train": 32, "dev": 4, "test": 4,
    }  # fmt: skip
    assert load_task(spec).labels == ("bad", "good")
    assert not (tmp_path / "runs/x").exists()  # the folder is the run's


def test_names_of_tags_in_lists_are_kept(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-PER", "I-PER"])),
        }
    )
    rows = [{"tokens": ["Anna", "sings", str(number)], "ner_tags": [1, 0, 0]} for number in range(20)]
    spec = find_task(written(datasets.Dataset.from_list(rows, features=features), tmp_path / "run"))
    assert (spec.kind, load_task(spec).labels) == ("token-classification", ("O", "B-PER", "I-PER"))


def test_splits_that_are_given_are_kept(tmp_path: Path) -> None:
    splits = datasets.DatasetDict(
        {"train": as_dataset(ROWS[:20]), "validation": as_dataset(ROWS[20:30]), "test": as_dataset(ROWS[30:])}
    )
    spec = find_task(written(splits, tmp_path / "run"))
    assert count_rows(spec) == {"train": {"en": 20}, "dev": {"en": 10}, "test": {"en": 10}}
    assert load_task(spec).labels == ("bad", "good")


def test_equal_rows_are_the_same_task_and_others_are_not(tmp_path: Path) -> None:
    first = written(ROWS, tmp_path / "run")
    assert written(list(ROWS), tmp_path / "run") == first
    assert written(ROWS[2:], tmp_path / "run") != first


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (3, "task is a int; expected a task's name"),
        ([], "^task has no rows"),
        ({"train": ROWS, "dev": []}, r"^task\['dev'\] has no rows\. Expected one or more"),
        ({"train": [1]}, r"^task\['train'\] is a list; expected rows: "),
        ([1, 2], "task is a list; expected"),
        ({"train": ROWS, "tests": ROWS}, r"a split 'tests'. Did you mean 'test'"),
        ({"test": ROWS}, "has the splits test; expected train"),
        ([{"text": "a", "label": 1}, {"text": "b", "label": "x"}], "columns cannot be written"),
    ],
)
def test_what_is_no_task_is_refused_with_what_is_expected(task: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        written(task, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("learn", ["train", "compare", "recommend"])
def test_rows_are_written_only_if_the_settings_are_right(learn: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="batch_size"):
        getattr(gg, learn)(task=ROWS, out=tmp_path / "run", batch_size=0)
    assert list(tmp_path.iterdir()) == []


def test_a_model_in_memory_is_refused_with_what_to_do() -> None:
    class Net: ...

    with pytest.raises(UsageError, match=r"model is a Net; expected a hub name.*save_pretrained"):
        model_name(Net())
    assert model_name(Path("a/b")) == "a/b"


def test_one_value_or_several() -> None:
    assert several(None) == []
    assert several("full") == ["full"]
    assert several(("full", "head")) == ["full", "head"]
    assert several(ROWS) == [ROWS]
    assert several(8) == [8]


TEXTS = [f"text {row}" for row in range(4)]
HUGE = 10**30


def frame(**columns: Any) -> Any:
    return pd.DataFrame({"text": TEXTS, **columns})


@pytest.mark.parametrize("words", [("training", "val", "testing"), ("Train", "Eval", "held-out")])
def test_splits_go_by_any_of_their_names(words: tuple[str, str, str], tmp_path: Path) -> None:
    named = written({word: [{"text": word, "label": 1}] for word in words}, tmp_path / "out")
    files = {path.stem: pq.read_table(path)["text"][0].as_py() for path in Path(named).iterdir()}
    assert files == dict(zip(("train", "dev", "test"), words, strict=True))


ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "mixed types": (
        lambda: frame(label=[1, "a", 2, "b"]),
        r"'label' has values of several types: int \(row 0: 1\)",
    ),
    "a name twice": (lambda: pd.DataFrame([[1, 2]], columns=["text", "text"]), "two columns called 'text'"),
    "a number and its text": (lambda: pd.DataFrame([[1, 2]], columns=[0, "0"]), "two columns called '0'"),
    "no name": (lambda: pd.DataFrame({None: TEXTS}), "a column without a name"),
    "complex": (lambda: frame(label=[1j] * 4), "'label' has values of type complex"),
    "sparse": (lambda: frame(label=pd.arrays.SparseArray([0, 1] * 2)), "'label' is sparse"),
    "huge": (lambda: frame(label=[1, 2, 3, HUGE]), "'label' has a whole number beyond 64 bits in row 3"),
    "ragged": (
        lambda: frame(label=[[1], ["a"], [2], [3]]),
        "'label' has a list in each row with values of several types",
    ),
    "lists and numbers": (lambda: frame(label=[[1], 2, 3, 4]), r"'label' has values of several types: list"),
    "matrices": (lambda: frame(label=[np.zeros((2, 2))] * 4), "'label' has a ndarray in each row"),
    "objects": (lambda: frame(label=[object()] * 4), "'label' has values of type object"),
    "long floats": (lambda: frame(label=np.arange(4, dtype="longdouble")), "'label' has values of type"),
    "half a pair": (lambda: [{"text": "a\ud800"}], r"'text' has half a surrogate pair in row 0"),
    "half a pair in a name": (lambda: [{"\ud800": "a"}], "has half a surrogate pair in its name"),
    "huge in dicts": (lambda: [{"text": "a", "label": -HUGE}], "beyond 64 bits in row 0"),
    "complex in dicts": (lambda: [{"text": "a", "label": 1j}], "'label' has values of type complex"),
    "empty dicts": (lambda: [{}, {}], "2 rows without a column"),
    "two names of a table": (lambda: pa.table([TEXTS, TEXTS], names=["text", "text"]), "two columns called 'text'"),
    "two dev splits": (
        lambda: {"train": [{"text": "a"}], "dev": [{"text": "a"}], "validation": [{"text": "b"}]},
        "two splits that are dev",
    ),
    "a stream": (
        lambda: datasets.IterableDataset.from_generator(lambda: iter([{"text": "a"}])),
        "task is a IterableDataset; expected",
    ),
}


@pytest.mark.parametrize(("make", "message"), ODD.values(), ids=ODD)
def test_an_odd_column_is_named(tmp_path: Path, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        written(make(), tmp_path / "out")
    assert "Conversion failed" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_values_and_categories_are_written(tmp_path: Path) -> None:
    rows = frame(label=pd.Categorical(["a", "b", None, "a"]), score=[0.5, None, 1.0, float("nan")])
    name = written(rows, tmp_path / "x")
    table = pq.read_table(str(name))
    assert table.column("label").to_pylist() == ["a", "b", None, "a"]
    assert table.column("score").to_pylist() == [0.5, None, 1.0, None]


def test_rows_of_a_run_in_the_current_folder_lie_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    name = written(ROWS, Path())
    assert Path(str(name)).is_relative_to(tmp_path / "run-data")
    assert list(Path().iterdir()) == []
