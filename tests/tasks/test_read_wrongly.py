"""Data that a quick reader would take for something else: each row and label is read as meant, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from gradgate.errors import DataError
from gradgate.tasks.data import load_task
from gradgate.tasks.find import find_task

TEXTS = [f"this is text number {number} of the file" for number in range(60)]


def rows(first: int, last: int, **more: Sequence[Any]) -> list[dict[str, Any]]:
    columns: Mapping[str, Sequence[Any]] = {"label": "ab", **more}
    return [
        {"text": TEXTS[number], **{name: cells[number % len(cells)] for name, cells in columns.items()}}
        for number in range(first, last)
    ]


def write(file: Path, found: Sequence[Mapping[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(list(found)), file)
    elif file.suffix == ".csv":
        lines = [",".join(found[0]), *(",".join(map(str, row.values())) for row in found)]
        file.write_text("\n".join(lines))
    else:
        file.write_text("\n".join(map(json.dumps, found)))
    return file


def counts(task: Path, **given: Any) -> dict[str, int]:
    return load_task(find_task(str(task), **given)).rows


MARKS, SCORES = [[0, 1, 0], [1, 1, 0], [0, 0, 0]], [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]
VECTORS: dict[str, Callable[[list[Any]], Any]] = {
    "lists": list,
    "floats": lambda own: list(map(float, own)),
    "words": lambda own: list(map(str, own)),
    "as pandas writes lists": str,
    "as NumPy writes them": lambda own: str(np.array(own)),
    "as torch writes them": lambda own: f"tensor({[float(item) for item in own]}, device='cuda:0')",
    "tuples": lambda own: str(tuple(own)),
    "as PostgreSQL writes them": lambda own: f"{{{','.join(map(str, own))}}}",
    "with spaces": lambda own: " ".join(map(str, own)),
    "with bars": lambda own: "|".join(map(str, own)),
}


@pytest.mark.parametrize("kind", [None, "multi-label"])
@pytest.mark.parametrize("spelling", VECTORS)
def test_vectors_name_no_labels(spelling: str, kind: str | None, tmp_path: Path) -> None:
    for vectors, message in (
        (MARKS, r"hot\.jsonl:1: 'labels' has 3 marks of 0 and 1 in each row.*Write the names of a row's labels"),
        (SCORES, r"hot\.jsonl:1: 'labels' has 2 numbers in each row, .*not whole \(0\.25\).*in place of scores"),
    ):
        cells = [VECTORS[spelling](vectors[number % 3]) for number in range(60)]
        file = write(tmp_path / "hot.jsonl", rows(0, 60, labels=cells, label=["a"]))
        with pytest.raises(DataError, match=message):
            load_task(find_task(str(file), label="labels", kind=kind))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[True, False], [False, True]], "2 marks of 0 and 1 .*Write the name of the class that has the 1"),
        (["[ True False]", "[False  True]"], "Write the name of the class that has the 1"),
        ([[1, -1], [-1, -1]], "2 marks of 0 and 1"),
        ([[0.5], [2.0]], r"has a list of one number .*\(0\.5\).*Write a score without brackets"),
        ([[float("nan"), 1.0], [0.0, 1.0]], r"not whole \(nan\)"),
        (["[0 1 ... 0 1]", "[0 1 ... 0 0]"], "NumPy has left out items"),
    ],
)
def test_odd_vectors_are_named(cells: list[Any], message: str, tmp_path: Path) -> None:
    file = write(tmp_path / "odd.jsonl", rows(0, 60, labels=cells, label=["a"]))
    with pytest.raises(DataError, match=rf"odd\.jsonl:1: .*{message}"):
        load_task(find_task(str(file), label="labels"))


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        ([[3, 5], [2, 7]], ("2", "3", "5", "7")),
        ([["250.1", "401.9"], ["250.1", "0.5"]], ("0.5", "250.1", "401.9")),
        ([[1], [0]], ("0", "1")),
        ([[10**400, 1], [2, 3]], ("1", str(10**400), "2", "3")),
    ],
)
def test_numbers_may_be_ids_of_labels(cells: list[Any], labels: tuple[str, ...], tmp_path: Path) -> None:
    file = write(tmp_path / "ids.jsonl", rows(0, 60, label=cells))
    assert sorted(load_task(find_task(str(file))).labels or ()) == sorted(labels)


PRODIGY: dict[str, Sequence[Any]] = {"answer": ["accept", "accept", "reject", "ignore", "accept"]}
VERDICTS: dict[str, tuple[dict[str, Sequence[Any]], dict[str, Any], str]] = {
    "labels": (PRODIGY, {}, r"all\.jsonl:3: 'answer' is 'reject', and 24 of 60 rows were not accepted"),
    "labels that are named": (PRODIGY, {"label": "label", "text": "text"}, "Keep the rows with answer accept"),
    "spans": ({**PRODIGY, "spans": [[{"start": 0, "end": 4, "label": "a"}]]}, {}, "Keep the rows with answer accept"),
    "options": ({**PRODIGY, "options": [[{"id": "a"}]], "accept": [["a"]]}, {}, "Keep the rows with answer accept"),
    "a status of Argilla": (
        {"status": ["Validated", "Discarded", "Default"]},
        {},
        r"all\.jsonl:2: 'status' is 'Discarded', and 40 of 60.*rows: \{status: Validated\}",
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_rejected_labels_are_refused(name: str, tmp_path: Path) -> None:
    columns, given, message = VERDICTS[name]
    with pytest.raises(DataError, match=message):
        find_task(str(write(tmp_path / "all.jsonl", rows(0, 60, **columns))), **given)


def test_accepted_rows_can_be_chosen(tmp_path: Path) -> None:
    file = write(tmp_path / "all.jsonl", rows(0, 60, **PRODIGY))
    kind = "kind: classification\nfiles: {train: all.jsonl}\nsplit: 80/20\n"
    (tmp_path / "task.yaml").write_text(f"{kind}format: {{rows: {{answer: accept}}}}\n")
    assert sum(counts(tmp_path).values()) == 36
    assert load_task(find_task(str(file), label="answer")).labels == ("accept", "ignore", "reject")
    (tmp_path / "task.yaml").write_text(kind.replace("}", ", test: test.jsonl}"))
    write(tmp_path / "all.jsonl", rows(0, 60))
    write(tmp_path / "test.jsonl", rows(0, 60, **PRODIGY))
    with pytest.raises(DataError, match=r"test\.jsonl:3: 'answer' is 'reject'"):
        load_task(find_task(str(tmp_path)))


@pytest.mark.parametrize(
    "columns",
    [
        {"answer": ["accept"]},
        {"answer": ["accept", "decline"]},
        {"status": ["pending", "completed"]},
        {"answer": ["reject", "declined"]},
    ],
)
def test_other_columns_are_no_verdicts(columns: dict[str, Sequence[Any]], tmp_path: Path) -> None:
    file = write(tmp_path / "all.jsonl", rows(0, 60, **{**columns, "label": "ab"}))
    assert load_task(find_task(str(file))).labels == ("a", "b")


def test_a_row_with_several_accepted_options_is_named(tmp_path: Path) -> None:
    options: dict[str, Sequence[Any]] = {"options": [[{"id": "a"}, {"id": "b"}]], "accept": [["a"], ["b"]]}
    found = [{name: cell for name, cell in row.items() if name != "label"} for row in rows(0, 60, **options)]
    styled = [{**row, "config": {"choice_style": "multiple"}} for row in found]
    assert find_task(str(write(tmp_path / "several.jsonl", styled))).kind == "multi-label"
    file = write(tmp_path / "one.jsonl", [*found[:55], {**found[55], "accept": ["a", "b"]}, *found[56:]])
    with pytest.raises(DataError, match=r"one\.jsonl:56 has 2 accepted options.*kind='multi-label'"):
        find_task(str(file))
    assert load_task(find_task(str(file), kind="multi-label")).labels == ("a", "b")
    write(tmp_path / "one.jsonl", [*found[:55], {**found[55], "accept": []}, *found[56:]])
    with pytest.raises(DataError, match=r"one\.jsonl:56 has no 'label'"):
        load_task(find_task(str(file)))


def test_lists_without_quotes_are_lists(tmp_path: Path) -> None:
    cells = ["[drama, comedy]", "[drama]", "[horror,comedy]", "[]"]
    lines = ["text,labels", *(f'{text},"{cells[number % 4]}"' for number, text in enumerate(TEXTS))]
    (tmp_path / "films.csv").write_text("\n".join(lines))
    assert load_task(find_task(str(tmp_path / "films.csv"))).labels == ("comedy", "drama", "horror")


def test_every_language_of_each_split_is_scored(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", rows(0, 40, language=["en"]))
    write(tmp_path / "dev.csv", rows(40, 50, language=["en"]))
    write(tmp_path / "test.csv", rows(0, 30, language=["en", "de", "fr"], text=[f"test {text}" for text in TEXTS]))
    assert counts(tmp_path) == {"train": 40, "dev": 10, "test.en": 10, "test.de": 10, "test.fr": 10}
    write(tmp_path / "test.csv", rows(0, 30, language=["EN", "de"], text=[f"test {text}" for text in TEXTS]))
    with pytest.raises(DataError, match="has 'en' and 'EN', which are one language"):
        counts(tmp_path)


def test_rows_of_a_class_without_an_index_have_no_label(tmp_path: Path) -> None:
    feature = {"names": ["entailment", "neutral"], "_type": "ClassLabel"}
    features = {"text": {"dtype": "string", "_type": "Value"}, "label": feature}
    table = pa.table({"text": TEXTS, "label": pa.array([number % 2 if number % 9 else -1 for number in range(60)])})
    stored = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    parquet.write_table(table.replace_schema_metadata(stored), tmp_path / "nli.parquet")
    with pytest.raises(DataError, match="'label' is '-1', which usually means a missing cell"):
        load_task(find_task(str(tmp_path / "nli.parquet")))


def test_shards_are_complete_and_there_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(data / "train-00000-of-00002.parquet", rows(0, 30))
    with pytest.raises(DataError, match=r"has 1 of the 2 shards of train: train-00001-of-00002 is missing"):
        find_task(str(tmp_path))
    write(data / "train-00001-of-00002.parquet", rows(30, 60))
    assert sum(counts(tmp_path).values()) == 60
    write(data / "train-00000-of-00001.parquet", rows(0, 60))
    with pytest.raises(DataError, match="has the shards of train twice, in different numbers"):
        find_task(str(tmp_path))


TWICE: dict[str, tuple[tuple[str, ...], str]] = {
    "folders": (("train/a.jsonl", "dev/a.jsonl", "val/a.jsonl"), "2 files for dev: dev, val"),
    "files": (("train.csv", "eval.csv", "evaluation.csv"), r"2 files for dev: eval\.csv, evaluation\.csv"),
    "shards": (
        ("train-00000-of-00001.parquet", "dev-00000-of-00001.parquet", "validation-00000-of-00001.parquet"),
        r"2 files for dev: dev-\*\.parquet, validation-\*\.parquet",
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_two_names_of_one_split_are_refused(name: str, tmp_path: Path) -> None:
    files, message = TWICE[name]
    for number, file in enumerate(files):
        write(tmp_path / file, rows(0, 40) if not number else rows(40, 50))
    with pytest.raises(DataError, match=message):
        find_task(str(tmp_path))
    named = [write(tmp_path / "own/a.csv", rows(40, 60)), write(tmp_path / "own/b.csv", rows(0, 5))]
    assert counts(tmp_path, dev_file=str(named[0]), test_file=str(named[1])) == {"train": 40, "dev": 20, "test": 5}


@pytest.mark.parametrize(
    ("described", "file"),
    [
        ('{"splits": ["train", "dev", "validation"]}', "dataset_dict.json"),
        (
            "---\nconfigs:\n- data_files: [{split: train, path: a.csv}, {split: dev, path: a.csv}, "
            "{split: val, path: b.csv}]\n---\n",
            "README.md",
        ),
    ],
)
def test_two_names_of_one_split_in_a_description_are_refused(described: str, file: str, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", rows(0, 40))
    write(tmp_path / "b.csv", rows(0, 40))
    (tmp_path / file).write_text(described)
    with pytest.raises(DataError, match="2 files for dev: "):
        find_task(str(tmp_path))


SPLITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "eval selects": (("train", "eval"), ("train", "dev")),
    "evaluation selects": (("Train", "Evaluation", "test"), ("train", "dev", "test")),
    "eval is tested on": (("train", "eval", "dev"), ("train", "eval", "dev")),
    "held out": (("train", "held-out", "devel"), ("train", "test", "dev")),
    "held out beside test": (("train", "holdout", "test", "validation"), ("train", "holdout", "test", "dev")),
    "a test of its own": (("train", "test_hard", "dev", "test"), ("train", "test_hard", "dev", "test")),
}


@pytest.mark.parametrize("form", ["files", "folders", "folders in data", "classes", "keys", "shards"])
@pytest.mark.parametrize("name", SPLITS)
def test_every_word_for_a_split_is_known(name: str, form: str, tmp_path: Path) -> None:
    words, splits = SPLITS[name]
    parts = {word: rows(0, 40) if not number else rows(40, 50 + number) for number, word in enumerate(words)}
    if form == "keys":
        (tmp_path / "t.json").write_text(json.dumps(parts))
    for word, own in parts.items() if form != "keys" else ():
        if form == "classes":
            for number, row in enumerate(own):
                (tmp_path / word / row["label"]).mkdir(parents=True, exist_ok=True)
                (tmp_path / word / row["label"] / f"{number}.txt").write_text(row["text"])
        else:
            places = {
                "files": f"{word}.csv",
                "folders": f"{word}/a.jsonl",
                "folders in data": f"data/{word}/a.jsonl",
                "shards": f"data/{word.replace('-', '_')}-00000-of-00001.parquet",
            }
            write(tmp_path / places[form], own)
    data = load_task(find_task(str(tmp_path / "t.json" if form == "keys" else tmp_path)))
    found = {split: len(parts[word]) for word, split in zip(words, splits, strict=True)}
    assert {split: data.rows[split] for split in found} == found or data.division is not None
    assert set(data.rows) == set(splits) | {"dev"}
    assert not [note for note in data.notes if "no split uses" in note]


UNUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a file": (("train.csv", "dev.csv", "train_extra.csv", "README.txt"), "train_extra.csv"),
    "text files": (("train.txt", "dev.txt", "more.txt", "LICENSE.txt"), "more.txt"),
    "files of another form": (("train.csv", "dev.csv", "test.csv.gz", "ood.jsonl"), "ood.jsonl, test.csv.gz"),
    "a folder of a split": (("train.csv", "dev.csv", "test/a.csv", "runs/run.json"), "test/"),
    "train in another language": (("train.csv", "dev.csv", "test.de.csv", "de/train.csv"), "de/train.csv"),
    "folders": (("train/a.csv", "dev/a.csv", "ood/a.csv", "more.csv"), "more.csv, ood/"),
    "folders in folders": (("data/train/a.csv", "data/dev/a.csv", "data/ood/a/b.csv"), "data/ood/"),
    "next to classes": (
        ("train/a/1.txt", "train/b/1.txt", "train/more.csv", "dev/a/1.txt", "dev/b/1.txt"),
        "train/more.csv",
    ),
    "next to shards": (
        ("data/train-00000-of-00001.parquet", "data/dev-00000-of-00001.parquet", "data/x.csv"),
        "data/x.csv",
    ),
    "the only file": (("all.csv", "test/a.csv"), "test/"),
    "many": (
        ("train.csv", "dev.csv", *(f"a{n}.csv" for n in range(9))),
        "a0.csv, a1.csv, a2.csv, a3.csv, a4.csv, a5.csv and 3 more",
    ),
}


@pytest.mark.parametrize("name", UNUSED)
def test_data_that_no_split_uses_are_named(name: str, tmp_path: Path) -> None:
    files, left = UNUSED[name]
    for file in files:
        if file.endswith(".txt") and "/" in file:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text("some text")
        else:
            write(tmp_path / file, rows(0, 40))
    assert f"no split uses {left}" in find_task(str(tmp_path)).notes


def test_without_dev_the_files_are_named_that_may_be_meant(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", rows(0, 40))
    write(tmp_path / "tuning.csv", rows(40, 50))
    with pytest.raises(DataError, match=r"has no dev split \(it has train; no split uses tuning\.csv\)"):
        counts(tmp_path)


KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "two names": ({"validation": rows(40, 50), "val": rows(50, 60)}, "has 'validation' and 'val', which are both dev"),
    "columns": ({"test": {"text": TEXTS[:5]}}, r"'test' is not a list of rows as the others are, but \{'text'"),
    "no rows in train": ({"train": [], "test": rows(40, 60)}, "'train' has no rows, but other splits have"),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_splits_that_cannot_be_read_are_refused(name: str, tmp_path: Path) -> None:
    parts, message = KEYS[name]
    (tmp_path / "t.json").write_text(json.dumps({"train": rows(0, 40), **parts}))
    with pytest.raises(DataError, match=message):
        find_task(str(tmp_path / "t.json"))


@pytest.mark.parametrize(
    ("parts", "note"),
    [
        ({"train": rows(0, 40), "ood": rows(40, 50), "test": [], "test_size": 0.2}, "no split uses 'ood' of t.json"),
        (
            {"data": rows(0, 40), "labels": ["a", "b"], "version": 2, "schema": {"fields": []}},
            "t.json: not used: 'labels'",
        ),
    ],
)
def test_keys_that_no_split_uses_are_named(parts: dict[str, Any], note: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(parts))
    data = load_task(find_task(str(tmp_path / "t.json")))
    assert data.notes[0] == note or note in data.notes
    assert sum(data.rows.values()) == 40


def test_a_split_column_counts_beside_a_file_for_dev(tmp_path: Path) -> None:
    parts = [*rows(0, 40, split=["train"]), *rows(40, 60, split=["test"])]
    file, dev = write(tmp_path / "all.csv", parts), write(tmp_path / "held.csv", rows(0, 10, text=["held", "out"]))
    assert counts(file, dev_file=str(dev)) == {"train": 40, "dev": 10, "test": 20}


def test_a_first_line_with_a_score_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("\n".join(f"{text},{number / 7:.4f}" for number, text in enumerate(TEXTS)))
    with pytest.raises(DataError, match=r"'0\.0000', which is a number: the first line is a row and no header"):
        find_task(str(tmp_path / "scores.csv"))


def test_comments_with_spaces_among_tabs_are_no_tokens(tmp_path: Path) -> None:
    sentences = [f"# sent_{number}\nAnna{number}\tB-PER\nsings\tO\n" for number in range(30)]
    (tmp_path / "names.conll").write_text("\n".join(sentences))
    task = load_task(find_task(str(tmp_path / "names.conll")))
    assert task.labels == ("O", "B-PER", "I-PER")
    assert "30 comment lines of names.conll are skipped" in " ".join(task.notes)


def test_in_domain_is_not_indonesian(tmp_path: Path) -> None:
    for number, name in enumerate(("train", "dev", "test_id", "test_ood")):
        write(tmp_path / f"{name}.csv", rows(15 * number, 15 * number + 15))
    assert counts(tmp_path) == dict.fromkeys(("train", "dev", "test_id", "test_ood"), 15)


@pytest.mark.parametrize("lone", [True, False])
def test_a_lone_quote_that_swallows_rows_is_told(lone: bool, tmp_path: Path) -> None:
    lines = [f"{text},{'ab'[number % 2]}" for number, text in enumerate(TEXTS)]
    lines[20], lines[25] = (f'"{TEXTS[20]},a', f'{TEXTS[25]}",b') if lone else ('"two lines,\nof a text",a', lines[25])
    (tmp_path / "quoted.csv").write_text("\n".join(["text,label", *lines]))
    notes = " ".join(load_task(find_task(str(tmp_path / "quoted.csv"))).notes)
    assert ("quoted.csv:22: the cell of 'text' spans 6 lines, some of which end like rows" in notes) is lone
