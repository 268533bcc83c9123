"""Several labels per row: the forms that data have, the head and the metrics."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score
from torch.nn import functional
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from gradgate.errors import DataError
from gradgate.tasks import TaskData, find_task, kind_of, load_task
from gradgate.tasks.types import MultiLabelOptions

SETS = [["sad", "war"], [], ["war"], ["funny", "sad"], ["funny"]] * 8
LABELS = ("funny", "sad", "war")


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps({"text": f"a text of row {row}", **cells}) + "\n" for row, cells in enumerate(rows))


def table(header: str, cells: list[str]) -> str:
    return f"text,{header}\n" + "".join(f"a text of row {row},{cell}\n" for row, cell in enumerate(cells))


def marks(own: list[str], yes: str = "1", no: str = "0") -> str:
    return ",".join(yes if label in own else no for label in LABELS)


FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lists": ("t.jsonl", lines([{"labels": own} for own in SETS]), {}),
    "lists, named": ("t.jsonl", lines([{"genres": own} for own in SETS]), {"label": "genres"}),
    "objects": ("t.jsonl", lines([{"cats": {label: label in own for label in LABELS}} for own in SETS]),
                {"label": "cats", "kind": "multi-label"}),
    "bars": ("t.csv", table("label", ["|".join(own) for own in SETS]), {"kind": "multi-label"}),
    "semicolons and spaces": ("t.csv", table("label", ["; ".join(own) for own in SETS]), {"kind": "multi-label"}),
    "commas": ("t.csv", table("label", [f'"{", ".join(own)}"' for own in SETS]), {"kind": "multi-label"}),
    "lists as pandas writes them": ("t.csv", table("label", [f'"{own}"' for own in SETS]), {"kind": "multi-label"}),
    "columns": ("t.csv", table(",".join(LABELS), [marks(own) for own in SETS]), {"label": "funny,sad,war"}),
    "columns of booleans": ("t.csv", table(",".join(LABELS), [marks(own, "True", "False") for own in SETS]),
                            {"label": "funny, sad, war"}),
    "columns of floats": ("t.csv", table(",".join(LABELS), [marks(own, "1.0", "0.0") for own in SETS]),
                          {"label": "funny,sad,war", "kind": "multi-label"}),
}  # fmt: skip


def load(folder: Path, name: str, content: str, **options: Any) -> TaskData:
    (folder / name).write_text(content)
    return load_task(find_task(folder / name, **options))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_rows(form: str, tmp_path: Path) -> None:
    name, content, options = FORMS[form]
    data = load(tmp_path, name, content, **options)
    assert (data.spec.kind, data.spec.metric, data.labels) == ("multi-label", "micro_f1", LABELS)
    rows = [row for part in (data.train, data.dev, data.tests["test"]) for row in part]
    found = {row["text"]: [LABELS[number] for number in row["label"]] for row in rows}
    assert found == {f"a text of row {row}": own for row, own in enumerate(SETS)}
    assert {number for row in data.train for number in row["label"]} == {0, 1, 2}
    assert any("rows of train have no label" in note for note in data.notes)


def test_a_task_file_names_columns_and_separator(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table("label", ["rock, pop/jazz", "jazz", "rock, pop"] * 8))
    (tmp_path / "task.yaml").write_text(
        'kind: multi-label\nlabel_separator: "/"\nthreshold: 0.3\nsplit: 50/25/25\nfiles: {train: t.csv}\n'
    )
    (tmp_path / "t.csv").write_text(table("label", ['"rock, pop/jazz"', "jazz", '"rock, pop"'] * 8))
    data = load_task(find_task(tmp_path))
    assert data.labels == ("jazz", "rock, pop")
    assert data.spec.options == MultiLabelOptions(label_separator="/", threshold=0.3)
    spec = find_task(tmp_path / "task.yaml").model_validate(
        {"name": "t", "kind": "multi-label", "label": ["a", "b"], "files": {"train": "t.csv"}}
    )
    assert spec.label_column == "a,b"


REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "one label": ("t.jsonl", lines([{"labels": ["a"]}] * 20), {}, r"have the one label 'a'; multi-label needs two"),
    "a probability": (
        "t.csv",
        table("a,b", ["1,0", "0.7,1"] * 10),
        {"label": "a,b"},
        r"t\.csv:3: 'a' is '0\.7'; expected 1",
    ),
    "rows not labelled": (
        "t.csv",
        table("a,b", ["1,0", "-1,-1"] * 10),
        {"label": "a,b"},
        r":3: 'a' is '-1'.*Unlabelled rows",
    ),
    "an absent column": (
        "t.csv",
        table("a,b", ["1,0"] * 20),
        {"label": "a,c", "kind": "multi-label"},
        r"t\.csv has no column 'c'",
    ),
    "an empty name": (
        "t.jsonl",
        lines([{"labels": ["a", " "]}, {"labels": ["b"]}] * 10),
        {},
        r":\d: the label is empty",
    ),
    "objects in lists": (
        "t.jsonl",
        lines([{"labels": [{"start": 1}]}] * 20),
        {"kind": "multi-label"},
        r":1: an item .*dict",
    ),
    "a missing cell": ("t.jsonl", lines([{"labels": None}, *[{"labels": ["a", "b"]}] * 20]), {}, r"has no 'labels'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named(case: str, tmp_path: Path) -> None:
    name, content, options, message = REFUSED[case]
    with pytest.raises(DataError, match=message):
        load(tmp_path, name, content, **options)


def test_an_unknown_label_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(lines([{"label": own} for own in SETS]))
    (tmp_path / "dev.jsonl").write_text(lines([{"label": ["war"]}, {"label": ["war", "wars"]}]))
    with pytest.raises(DataError, match=r"dev\.jsonl:2: the dev split has the label 'wars'.*Did you mean 'war'"):
        load_task(find_task(tmp_path))


def test_test_columns_without_labels_are_left_out(tmp_path: Path) -> None:
    for split, cells in (("train", [marks(own) for own in SETS]), ("dev", ["1,0,0"]), ("test", ["-1,-1,-1"] * 3)):
        (tmp_path / f"{split}.csv").write_text(table(",".join(LABELS), cells))
    data = load_task(find_task(tmp_path, label="funny,sad,war"))
    assert list(data.tests) == []
    assert any(note.startswith("test is unlabelled") for note in data.notes)


@pytest.fixture
def data(tmp_path: Path) -> TaskData:
    return load(tmp_path, *FORMS["lists"][:2])


def test_the_loss_is_binary_cross_entropy(data: TaskData, tiny_model: Path) -> None:
    kind, tokenizer = kind_of(data.spec), AutoTokenizer.from_pretrained(tiny_model)
    encoded = kind.encode(data.train, tokenizer, 16)
    batch = kind.collator(tokenizer)([encoded[row] for row in range(4)])
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=200, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    config.update(kind.config_overrides(data))
    with torch.no_grad():
        output = BertForSequenceClassification(config).eval()(**batch)
    expected = functional.binary_cross_entropy_with_logits(output.logits, batch["labels"])
    assert torch.equal(output.loss, expected)
    assert batch["labels"].tolist() == [[float(n in data.train[row]["label"]) for n in range(3)] for row in range(4)]


def test_metrics_are_those_of_scikit_learn(data: TaskData) -> None:
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(len(data.train), 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kind_of(data.spec).score(data.train, data.train, logits, data, "train")
    gold = np.array([[n in row["label"] for n in range(3)] for row in data.train]).astype(int)
    assert found.metrics == {
        "micro_f1": f1_score(gold, logits >= 0, average="micro"),
        "macro_f1": f1_score(gold, logits >= 0, average="macro"),
        "mean_average_precision": pytest.approx(average_precision_score(gold, logits, average="macro")),
    }
    first = found.predictions[0]
    assert first["gold"] == [LABELS[n] for n in data.train[0]["label"]]
    assert first["predicted"] == [label for label, logit in zip(LABELS, logits[0], strict=True) if logit >= 0]
    assert first["probabilities"]["sad"] == pytest.approx(1 / (1 + np.exp(-logits[0][1])), abs=1e-6)


def test_degenerate_splits_score_zero(data: TaskData) -> None:
    nothing = data.train.filter(lambda row: not row["label"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored = kind_of(data.spec).score(nothing, nothing, np.full((len(nothing), 3), -1.0), data, "train")
    assert set(scored.metrics.values()) == {0.0}
    assert scored.predictions[0]["predicted"] == []
