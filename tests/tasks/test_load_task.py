"""Tasks loaded whole: the real sets' row counts, labels and scores, and what a fault in the data says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError, UsageError
from gradgate.tasks import TaskData, find_task, load_task, subsample
from gradgate.tasks.tables import check_files

REAL = [
    ("tae/citation_intent", "citation_intent", {"train": 1688, "dev": 114, "test": 139}, 6),
    ("tae/sciie", "sciie", {"train": 3219, "dev": 455, "test": 974}, 7),
    ("tae/chemprot", "chemprot", {"train": 4169, "dev": 2427, "test": 3469}, 13),
    ("tae/scicite", "scicite", {"train": 3000, "dev": 500, "test": 1000}, 3),
    ("glue/SST-2", "sst2", {"train": 10_000, "dev": 872}, 2),
    ("glue/SST-2-sentences", "sst2_sentences", {"train": 6920, "dev": 872, "test": 1821}, 2),
    ("glue/CoLA", "cola", {"train": 8551, "dev": 1043}, 2),
    ("glue/MRPC", "mrpc", {"train": 3668, "dev": 408, "test": 1725}, 2),
    ("glue/RTE", "rte", {"train": 2490, "dev": 277}, 2),
    ("glue/WNLI", "wnli", {"train": 635, "dev": 71}, 2),
    ("glue/STS-B", "stsb", {"train": 5749, "dev": 1500, "test": 1379}, None),
]


@pytest.mark.parametrize(("folder", "name", "rows", "labels"), REAL, ids=[row[1] for row in REAL])
def test_real_sets_have_the_rows_of_their_readme(
    shared: Path, folder: str, name: str, rows: dict[str, int], labels: int | None
) -> None:
    found = load_task(find_task(str(shared / "data" / folder)))
    assert found.spec.name == name
    assert found.rows == rows
    assert (None if found.labels is None else len(found.labels)) == labels
    named = load_task(find_task(name, data=shared / "data" / folder))
    assert (named.fingerprint, named.spec) == (found.fingerprint, found.spec)


def test_mrpc_rows_keep_their_quotes(shared: Path) -> None:
    data = load_task(find_task("mrpc", data=shared / "data/glue/MRPC"))
    assert data.train[0] == {
        "text": 'Amrozi accused his brother, whom he called "the witness", of deliberately distorting his evidence.',
        "text_pair": 'Referring to him as only "the witness", Amrozi accused his brother of deliberately distorting '
        "his evidence.",
        "label": 1,
    }
    assert data.labels == ("not_equivalent", "equivalent")


def test_stsb_scores_come_from_the_score_column_of_either_layout(shared: Path) -> None:
    data = load_task(find_task("stsb", data=shared / "data/glue/STS-B"))
    assert data.train[0]["label"] == 5.0
    assert data.tests["test"][0] == {
        "text": "A girl is styling her hair.",
        "text_pair": "A girl is brushing her hair.",
        "label": 2.5,
    }


def test_an_unlabelled_test_split_is_left_out_with_a_note(shared: Path) -> None:
    data = load_task(find_task("cola", data=shared / "data/glue/CoLA"))
    assert data.tests == {}
    assert any(note.startswith("test is unlabelled") for note in data.notes)
    assert "no labelled test split: only dev is scored" in data.notes


def test_the_folder_above_that_of_one_task_is_not_its_data(tmp_path: Path) -> None:
    own = tmp_path / "citation_intent"
    own.mkdir()
    for split in ("train", "dev", "test"):
        (own / f"{split}.txt").write_text('{"text": "as in Smith", "label": "Uses"}\n')
    with pytest.raises(DataError, match=rf"train\.txt is there\. Pass data={own}$"):
        check_files(find_task("citation_intent", data=tmp_path))
    check_files(find_task("citation_intent", data=own))


def test_sets_without_train_or_dev_say_which_file_is_missing(shared: Path) -> None:
    with pytest.raises(DataError, match=r"QNLI/train\.tsv is missing; .* holds dev\.tsv"):
        load_task(find_task(str(shared / "data/glue/QNLI")))
    with pytest.raises(DataError, match=r"agnews/train\.csv is missing; .* holds classes\.txt"):
        load_task(find_task("agnews", data=shared / "data/agnews"))


def test_agnews_joins_title_and_description(shared: Path, tmp_path: Path) -> None:
    test = shared / "data/agnews/test.csv"
    data = load_task(find_task("agnews", train_file=test, dev_file=shutil.copy(test, tmp_path)))
    assert data.rows == {"train": 4000, "dev": 4000}
    assert data.labels == ("World", "Sports", "Business", "Sci/Tech")
    assert data.train[0]["text"].startswith("Fears for T N pension after talks Unions representing")
    assert data.train.column_names == ["text", "label"]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make(folder: Path, **splits: list[tuple[Any, Any]]) -> Path:
    for split, rows in splits.items():
        jsonl(folder / f"{split}.jsonl", [{"text": text, "label": label} for text, label in rows])
    return folder


def load(folder: Path, **overrides: Any) -> TaskData:
    return load_task(find_task(str(folder), **overrides))


GOOD = [("a", "x"), ("b", "y"), ("c", "x")]
SCORES = [("a", 0.5), ("b", 2.5)]


@pytest.mark.parametrize(
    ("splits", "overrides", "message"),
    [
        ({"train": GOOD, "dev": [("a", "x"), ("b", "Y")]}, {}, r"dev\.jsonl:2: the dev split has the label 'Y'.*'x'"),
        ({"train": GOOD, "dev": GOOD, "test": [("a", "q")]}, {}, r"test\.jsonl:1: the test split has the label 'q'"),
        ({"train": [*GOOD, ("d", " ")], "dev": GOOD}, {}, r"train\.jsonl:4: the label is empty"),
        ({"train": GOOD, "dev": [("a", "x"), ("b", None)]}, {}, r"dev\.jsonl:2 has no 'label'"),
        ({"train": [("a", "x"), ("b", "x")], "dev": GOOD}, {}, r"Every row of .*train\.jsonl has the label 'x'"),
        ({"train": GOOD, "dev": []}, {}, r"dev\.jsonl is empty"),
        ({"train": GOOD}, {}, r"no dev split \(it has train\).*dev_file="),
        ({"train": GOOD, "test": GOOD}, {}, r"no dev split \(it has train, test\).*move some rows"),
        ({"train": [("a", "x"), (5, "y")], "dev": GOOD}, {}, r"train\.jsonl:2: 'text' is not text but int"),
        ({"train": [("a", "x"), ("\ud800", "y")], "dev": GOOD}, {}, r"train\.jsonl:2: 'text' contains half a surr"),
        ({"train": [("a", ["x"]), ("b", "y")], "dev": GOOD}, {"kind": "classification"}, r"l:1: the label is a list"),
        ({"train": GOOD, "dev": GOOD}, {"kind": "regression"}, r"train\.jsonl:1: the score 'x' is not a number"),
        (
            {"train": GOOD, "dev": GOOD},
            {"label": "gold"},
            r"train\.jsonl has no column 'gold'.*'text', 'label'.*label=",
        ),
        ({"train": GOOD, "dev": GOOD}, {"text": "body"}, r"train\.jsonl has no column 'body'.*text="),
        ({"train": [*GOOD, ("d", "z")], "dev": GOOD}, {"metric": "f1"}, r"f1 is for two labels.*has 3; use macro_f1"),
        ({"train": SCORES, "dev": [("a", float("nan"))]}, {}, r"dev\.jsonl:1: the score nan is not fin"),
        ({"train": SCORES, "dev": [("a", "inf")]}, {}, r"dev\.jsonl:1: the score 'inf' is not fin"),
        ({"train": SCORES, "dev": [("a", "1_0")]}, {}, r"dev\.jsonl:1: the score '1_0' is not a number"),
        ({"train": SCORES, "dev": [("a", True)]}, {}, r"dev\.jsonl:1: the score True is not a number"),
        ({"train": [("a", 0.5), ("b", 0.5)], "dev": [("a", 1.5)]}, {}, r"Every row of .* has the score 0\.5"),
    ],
)
def test_a_fault_in_the_data_is_named_with_its_place(
    tmp_path: Path, splits: dict[str, list[tuple[Any, Any]]], overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(make(tmp_path, **splits), **overrides)


def test_labels_are_sorted_by_number_or_by_code_point(tmp_path: Path) -> None:
    rows = [("a", 10), ("b", 2), ("c", -1), ("d", 2)]
    data = load(make(tmp_path, train=rows, dev=rows))
    assert data.labels == ("-1", "2", "10")
    assert data.train["label"][:] == [2, 1, 0, 1]
    words = [("a", "b"), ("b", "a"), ("c", "B")]
    assert load(make(tmp_path, train=words, dev=words)).labels == ("B", "a", "b")


def test_json_booleans_are_labels(tmp_path: Path) -> None:
    rows = [("a", True), ("b", False)]
    assert load(make(tmp_path, train=rows, dev=rows)).labels == ("false", "true")


@pytest.mark.parametrize("blank", [-1, "-1", "", None])
def test_a_test_split_of_placeholders_is_unlabelled(tmp_path: Path, blank: Any) -> None:
    data = load(make(tmp_path, train=GOOD, dev=GOOD, test=[("a", blank)], test_two=[("a", "x")]))
    assert data.rows == {"train": 3, "dev": 3, "test_two": 1}
    assert data.notes[0].startswith("test is unlabelled and not scored")


def test_minus_one_is_a_label_where_train_has_it(tmp_path: Path) -> None:
    rows = [("a", -1), ("b", 1)]
    assert load(make(tmp_path, train=rows, dev=rows, test=[("c", -1)])).rows["test"] == 1


def test_blank_texts_are_kept_and_noted(tmp_path: Path) -> None:
    data = load(make(tmp_path, train=[*GOOD, (" ", "x"), ("", "y")], dev=GOOD))
    assert data.train["text"][3:] == [" ", ""]
    assert any("train: 2 blank 'text' kept, the first at" in n and n.endswith("train.jsonl:4") for n in data.notes)


def test_label_map_names_and_orders_the_labels(tmp_path: Path) -> None:
    rows = [("a", 0), ("b", 1), ("c", "good")]
    make(tmp_path, train=rows, dev=rows)
    yaml = tmp_path / "task.yaml"
    yaml.write_text("label_map: {1: good, 0: bad}\nfiles: {train: train.jsonl, dev: dev.jsonl}\n")
    data = load(tmp_path)
    assert data.labels == ("good", "bad")
    assert data.train["label"][:] == [1, 0, 0]
    make(tmp_path, dev=[("a", 7)])
    with pytest.raises(DataError, match=r"dev\.jsonl:1: '7' is not in label_map, which has '1', '0', 'good', 'bad'"):
        load(tmp_path)


def test_the_fingerprint_is_of_rows_and_labels_not_of_files(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    second.mkdir()
    make(first, train=GOOD, dev=GOOD)
    for split in ("train", "dev"):
        (second / f"{split}.csv").write_text("id,text,label\n" + "".join(f"7,{t},{label}\n" for t, label in GOOD))
    assert load(first).fingerprint == load(second).fingerprint
    make(second / "..", train=GOOD[::-1], dev=GOOD)
    assert load(tmp_path).fingerprint != load(first).fingerprint


def test_subsamples_are_seeded_nested_and_bounded(tmp_path: Path) -> None:
    rows = [(f"t{i}", i % 2) for i in range(50)]
    train = load(make(tmp_path, train=rows, dev=rows)).train
    ten, twenty = subsample(train, 10, seed=1)["text"][:], subsample(train, 20, seed=1)["text"][:]
    assert twenty[:10] == ten
    assert len(set(twenty)) == 20
    assert subsample(train, 10, seed=2)["text"][:] != ten
    assert sorted(subsample(train, 50, seed=0)["text"][:]) == sorted(train["text"][:])
    for size in (0, 51):
        with pytest.raises(UsageError, match=rf"train_size={size} is not possible: the train split has 50 rows"):
            subsample(train, size, seed=0)


@pytest.mark.parametrize("spelled", ["Label", "labels", " label", "LABELS"])
def test_a_label_column_that_test_spells_otherwise_is_no_unlabelled_test(spelled: str, tmp_path: Path) -> None:
    make(tmp_path, train=GOOD, dev=GOOD)
    jsonl(tmp_path / "test.jsonl", [{"text": "a", spelled: "x"}])
    with pytest.raises(DataError, match=rf"test\.jsonl has no column 'label'; its columns are 'text', '{spelled}'"):
        load(tmp_path)


def test_a_test_without_any_label_column_is_unlabelled(tmp_path: Path) -> None:
    make(tmp_path, train=GOOD, dev=GOOD)
    jsonl(tmp_path / "test.jsonl", [{"text": "a", "source": "x"}])
    assert load(tmp_path).notes[0].startswith("test is unlabelled and not scored")
