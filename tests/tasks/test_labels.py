"""What cells in a label column mean: spellings, names of classes, and what is not a label."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from pyarrow import parquet

from gradgate.api.data import GivenTask
from gradgate.errors import DataError
from gradgate.tasks import TaskData, find_task, load_task
from gradgate.tasks.data import load_tests
from gradgate.tasks.spelling import Spelling

Cells = list[Any]


def save(path: Path, labels: Cells) -> None:
    """A row per label: as JSON, or as CSV where the file ends so."""
    if path.suffix == ".csv":
        path.write_text("text,label\n" + "".join(f"some words {row},{label}\n" for row, label in enumerate(labels)))
    else:
        rows = [{"text": f"some words {row}", "label": label} for row, label in enumerate(labels)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def load(folder: Path, files: dict[str, Cells], **options: Any) -> TaskData:
    for name, labels in files.items():
        save(folder / name, labels)
    return load_task(find_task(folder if len(files) > 1 else folder / next(iter(files)), **options))


SPELLED: dict[str, tuple[dict[str, Cells], tuple[str, ...]]] = {
    "whole numbers and floats": ({"train.csv": ["1", "1.0", "0"] * 4, "dev.csv": ["1", "0.0"]}, ("0", "1")),
    "floats of another file": ({"train.csv": ["1", "0"] * 4, "dev.csv": ["1.0", "0.0"]}, ("0", "1")),
    "whole numbers of another file": ({"train.jsonl": ["a", 1.0] * 4, "dev.csv": ["a", "1"]}, ("1.0", "a")),
    "JSON's types": ({"train.jsonl": [1, "1", 1.0, True, 0, "0", 0.0, False], "dev.csv": ["1", "0"]}, ("0", "1")),
    "booleans": ({"train.jsonl": [True, False] * 4, "dev.csv": ["True", "FALSE"]}, ("false", "true")),
    "booleans as numbers": ({"train.jsonl": [True, False] * 4, "dev.csv": ["1", "0"]}, ("false", "true")),
    "codes with zeros stay apart": ({"train.csv": ["01", "1"] * 4, "dev.csv": ["01", "1"]}, ("01", "1")),
    "sections stay apart": ({"train.csv": [*"abc", "1.1", "1.10"] * 4, "dev.csv": ["1.10"]}, (*"abc", "1.1", "1.10")),
    "words stay apart": ({"train.csv": ["Yes", "yes"] * 4, "dev.csv": ["Yes"]}, ("Yes", "yes")),
}


@pytest.mark.parametrize("case", SPELLED)
def test_a_label_is_one_however_spelled(case: str, tmp_path: Path) -> None:
    files, labels = SPELLED[case]
    data = load(tmp_path, files)
    assert sorted(data.labels or ()) == sorted(labels)
    said = any("spelled in several ways" in note for note in data.notes)
    assert said == (not case.endswith("stay apart"))


@pytest.mark.parametrize("label", ["فیلم\u200cکوتاه", "New\u00a0York", "👩\u200d🔬"])
def test_a_label_may_have_blanks_and_joiners(label: str, tmp_path: Path) -> None:
    assert label in (load(tmp_path, {"train.csv": [label, "other"] * 4, "dev.csv": [label]}).labels or ())


@pytest.mark.parametrize("label", ["a\u200bb", "a\ufeff", "a\u202eb"])
def test_a_label_with_an_invisible_character_is_refused(label: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"contains U\+\w{4}, which cannot be seen"):
        load(tmp_path, {"train.csv": [label, "other"] * 4, "dev.csv": ["other"]})


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("1.0", "0.0"), ("1.0", "0.0")),
        (("1.0", "1.1", "1.10", "1"), ("1", "1.1", "1.10", "1")),
        (("1.0", "1.5", "true"), ("1.0", "1.5", "true")),
        (("2", "true", "1"), ("2", "true", "1")),
        (("-1.0", "-1", "2.0"), ("-1", "-1", "2")),
    ],
)
def test_equal_whole_numbers_have_one_name(words: tuple[str, ...], names: tuple[str, ...]) -> None:
    spelling = Spelling.of(words)
    assert tuple(map(spelling.name, words)) == names


def test_a_label_map_finds_other_spellings(tmp_path: Path) -> None:
    save(tmp_path / "train.csv", ["1.0", "0.0"] * 4)
    save(tmp_path / "dev.jsonl", [True, 0])
    (tmp_path / "task.yaml").write_text(
        "files: {train: train.csv, dev: dev.jsonl}\nlabel_map: {0: negative, 1: positive}\n"
    )
    data = load_task(find_task(tmp_path))
    assert (data.labels, data.dev["label"][:]) == (("negative", "positive"), [1, 0])


WRITTEN: dict[str, Any] = {
    "classification": lambda code: code,
    "multi-label": lambda code: [code],
    "token-classification": lambda code: [code, code],
}


@pytest.mark.parametrize("names", [("1", "2", "3"), ("1", "0", "2"), ("2", "0", "1"), ("0", "1", "2")])
@pytest.mark.parametrize("kind", WRITTEN)
def test_a_label_map_of_names_that_are_also_codes_keeps_the_order_of_the_outputs(
    kind: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    text = ["two", "words"] if kind == "token-classification" else "two words"
    rows = [json.dumps({"text": text, "label": WRITTEN[kind](code)}) for code in "012" * 2]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows))
    (tmp_path / "task.yaml").write_text(
        f"kind: {kind}\ntext: text\nlabel: label\nfiles: {{train: train.jsonl, dev: dev.jsonl, test: test.jsonl}}\n"
        f"label_map: {dict(zip('012', names, strict=True))}\n"
    )
    trained = load_task(find_task(tmp_path))
    scored = load_tests(trained.spec, trained.labels)
    assert scored.labels == trained.labels == names
    assert scored.tests["test"]["label"][:] == trained.tests["test"]["label"][:] == trained.train["label"][:]


def test_a_label_map_that_leaves_out_an_output_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "test.jsonl", ["0", "1"])
    (tmp_path / "task.yaml").write_text("files: {test: test.jsonl}\nlabel_map: {0: 1, 1: 2}\n")
    spec = find_task(tmp_path)
    with pytest.raises(DataError, match=r"makes the labels 1, 2, but the outputs of the model are 0, 1, 2; expected"):
        load_tests(spec, ["0", "1", "2"])


def test_an_error_names_no_absent_label_map(tmp_path: Path) -> None:
    save(tmp_path / "test.csv", ["good", "god"])
    with pytest.raises(DataError, match=r"test\.csv:3: 'god' is not one of the labels.*Did you mean 'good'") as caught:
        load_tests(
            find_task(tmp_path / "test.csv", split="50/50").model_copy(
                update={"files": {"test": "test.csv"}, "split": None}
            ),
            ["good", "bad"],
        )
    assert "label_map" not in str(caught.value)


IDS = [f"u{row}" for row in range(40)]
REFUSED: dict[str, tuple[dict[str, Cells], str]] = {
    "an id, divided": ({"t.csv": IDS}, r"t\.csv: 'label' has 40 values in 40 rows: an id\?.*label="),
    "an id, with a dev file": ({"train.csv": IDS, "dev.csv": ["v1", "v2"]}, r"'label' has 40 values in 40 rows: an id"),
    "a number as id": ({"t.csv": [str(1000 + row) for row in range(200)]}, r"The 200 values .* 200 rows .*like ids"),
    "spans": ({"t.jsonl": [{"start": 0, "end": 4}] * 20}, r":1: the label is a span.*'token-classification'"),
    "lists of spans": ({"t.jsonl": [[{"start": 0, "end": 4, "label": "X"}]] * 20}, r"the label is a span of the text"),
    "objects": ({"t.jsonl": [{"a": 1}] * 20}, r":1: the label is dict .*expected text or a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_label_is_named(case: str, tmp_path: Path) -> None:
    files, message = REFUSED[case]
    with pytest.raises(DataError, match=message):
        load(tmp_path, files, label="label")


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ([f"2024-0{row % 9 + 1}-11" for row in range(90)], r"9 values in 72 rows, and all are dates"),
        (
            ["ham"] * 70 + ["spam"] * 10,
            r"imbalanced \(ham 56, spam 8\): always predicting 'ham' has an accuracy of 87\.5%.*macro_f1",
        ),
        (["-1", "0", "1"] * 20, r"of 48 rows of train have the label -1, which counts as a class, as 0 to 1 do"),
        (["-1", "1"] * 25, None),
        (["ham"] * 40 + ["spam"] * 10, None),
    ],
)
def test_doubtful_labels_are_said(labels: Cells, note: str | None, tmp_path: Path) -> None:
    notes = load(tmp_path, {"t.csv": labels}, label="label").notes[1:]
    assert [bool(re.search(note, found)) for found in notes] == [True] if note else not notes


def test_unequal_classes_selected_by_macro_f1_are_quiet(tmp_path: Path) -> None:
    data = load(tmp_path, {"t.csv": ["ham"] * 70 + ["spam"] * 10}, metric="macro_f1")
    assert data.spec.metric == "macro_f1"
    assert len(data.notes) == 1


def named_rows() -> Dataset:
    names = ClassLabel(names=["negative", "positive"])
    features = Features({"text": Value("string"), "label": names})
    rows = {"text": [f"some words {row}" for row in range(40)], "label": [row % 2 for row in range(40)]}
    return Dataset.from_dict(rows, features=features)


def test_parquet_keeps_the_names_of_classes(tmp_path: Path) -> None:
    named_rows().to_parquet(tmp_path / "t.parquet")
    assert load_task(find_task(tmp_path / "t.parquet")).labels == ("negative", "positive")


def test_parquet_keeps_the_names_of_tags(tmp_path: Path) -> None:
    tags = Features({"tokens": List(Value("string")), "tags": List(ClassLabel(names=["O", "B-X", "I-X"]))})
    rows = Dataset.from_dict({"tokens": [["a", "b"]] * 4, "tags": [[0, 1], [1, 2]] * 2}, features=tags)
    for split in ("train", "dev"):
        rows.to_parquet(tmp_path / f"{split}.parquet")
    data = load_task(find_task(tmp_path, kind="token-classification", text="tokens", label="tags"))
    assert (data.labels, data.train["label"][0]) == (("O", "B-X", "I-X"), [0, 1])


def test_parquet_with_strange_metadata_is_read(tmp_path: Path) -> None:
    table = pa.table({"text": [f"some words {row}" for row in range(40)], "label": [0, 1] * 20})
    parquet.write_table(table.replace_schema_metadata({"huggingface": "{no JSON"}), tmp_path / "t.parquet")
    assert load_task(find_task(tmp_path / "t.parquet")).labels == ("0", "1")


@pytest.mark.parametrize("form", ["datasets", "arrow"])
def test_rows_in_memory_keep_the_names_of_classes(form: str, tmp_path: Path) -> None:
    rows: Any = named_rows()
    if form == "arrow":
        rows.to_parquet(tmp_path / "t.parquet")
        rows = parquet.read_table(tmp_path / "t.parquet")
    given = GivenTask.of(rows, tmp_path / "run")
    given.write()
    assert given.name is not None
    assert load_task(find_task(given.name)).labels == ("negative", "positive")
