"""Multiple choice: what is read, how choices are laid out for the model, and accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gradgate.errors import DataError
from gradgate.tasks import TaskData, find_task, kind_of, load_task
from gradgate.tasks.spec import build_spec
from support.kind_folders import save_choices
from support.tiny_folders import save_bert


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(save_bert(tmp_path_factory.mktemp("bert")))


def row(number: int = 0, asked: str = "cause", label: Any = 0, **cells: Any) -> dict[str, Any]:
    premise = {"premise": "the day was fine", "choice1": "a warm day", "choice2": "a road"}
    return {**premise, "question": asked, "label": label, "idx": number, **cells}


TRAIN = [row(0, label=0), row(1, "effect", label=1)]


def load(folder: Path, splits: dict[str, list[dict[str, Any]]], **values: Any) -> TaskData:
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(cells) + "\r\n" for cells in rows))
    files = {split: f"{split}.jsonl" for split in splits}
    return load_task(
        build_spec({"name": "c", "kind": "multiple-choice", "files": files, "folder": folder, **values}, "c")
    )


def test_the_question_becomes_a_prompt(tmp_path: Path) -> None:
    data = load(tmp_path, {"train": TRAIN, "dev": TRAIN})
    assert data.train[0] == {
        "premise": "the day was fine What was the cause?",
        "choices": ["a warm day", "a road"],
        "label": 0,
    }
    assert data.train[1]["premise"] == "the day was fine What was the effect?"
    assert load(tmp_path, {"train": TRAIN, "dev": TRAIN}, question=None).train[0]["premise"] == "the day was fine"


def test_questions_can_be_taken_by_index_from_another_file(tmp_path: Path) -> None:
    right = [row(7, "cause"), row(5, "effect")]
    wrong = [row(5, "effect"), row(7, "effect")]
    splits = {"train": TRAIN, "dev": TRAIN, "test.et": right, "test.th": wrong}
    data = load(tmp_path, splits, question_from={"test": "test.et.jsonl"})
    assert [text.split()[-1] for text in data.tests["test.th"]["premise"]] == ["effect?", "cause?"]
    only = load(tmp_path, splits, question_from={"test.th": "test.et.jsonl"})
    assert only.fingerprint == data.fingerprint
    with pytest.raises(DataError, match=r"test\.th\.jsonl:2: .*test\.et\.jsonl has no row with idx 8 to take a quest"):
        load(tmp_path, {**splits, "test.th": [row(5), row(8)]}, question_from={"test": "test.et.jsonl"})


def test_xcopa_takes_the_questions_that_thai_lacks(shared: Path) -> None:
    languages = {language: f"xcopa/{language}/test.jsonl" for language in ("et", "th", "tr")}
    spec: dict[str, Any] = {
        "name": "xcopa",
        "kind": "multiple-choice",
        "folder": shared / "data",
        "files": {"train": "copa/en/train.jsonl", "dev": "copa/en/val.jsonl"},
        "question_from": {"test": "xcopa/et/test.jsonl"},
    }
    spec["files"] |= {f"test.{language}": file for language, file in languages.items()}
    data = load_task(build_spec(spec, "xcopa"))
    assert data.rows == {"train": 400, "dev": 100, "test.et": 500, "test.th": 500, "test.tr": 500}
    asked = {split: [text.split()[-1] for text in rows["premise"]] for split, rows in data.tests.items()}
    assert asked["test.th"] == asked["test.et"] == asked["test.tr"]
    assert asked["test.th"].count("cause?") > 200


@pytest.mark.parametrize(
    ("wrong", "values", "message"),
    [
        (row(label=2), {}, r"dev\.jsonl:1: the label '2' is not a choice; the 2 choices are 0 to 1"),
        (row(label=""), {}, r"dev\.jsonl:1: the label is empty"),
        (row(asked="why"), {}, r"dev\.jsonl:1: 'question' is 'why', expected 'cause' or 'effect'"),
        (row(choice2=" "), {}, r"dev\.jsonl:1: 'choice2' is blank"),
        (row(choice1=3), {}, r"dev\.jsonl:1: 'choice1' is not text but int"),
        (row(), {"choices": ("choice1", "choice3")}, r"has no column 'choice3'.*`choices` of the task"),
        (row(), {"choices": ("choice1",)}, r"choices: expected at least 2 items"),
    ],
)
def test_a_fault_is_named_with_its_line(
    tmp_path: Path, wrong: dict[str, Any], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, {"train": TRAIN, "dev": [wrong]}, **values)


def test_labels_may_have_names(tmp_path: Path) -> None:
    rows = [row(label="A"), row(label="B")]
    data = load(tmp_path, {"train": rows, "dev": rows}, label_map={"A": 0, "B": 1})
    assert data.train["label"][:] == [0, 1]


def test_the_choices_of_a_row_are_its_second_axis(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data = load_task(find_task(save_choices(tmp_path)))
    kind = kind_of(data.spec)
    features = kind.encode(data.dev, bert, 32)
    batch = kind.collator(bert)(list(features.select(range(3))))
    assert batch["input_ids"].shape[:2] == batch["attention_mask"].shape[:2] == (3, 2)
    assert batch["labels"].tolist() == data.dev["label"][:3]
    for number in range(3):
        for choice in range(2):
            ids = batch["input_ids"][number, choice][batch["attention_mask"][number, choice] == 1]
            assert bert.decode(ids).endswith(f"[SEP] {data.dev[number]['choices'][choice]} [SEP]")
    assert batch["token_type_ids"].dtype == torch.int64


def test_accuracy_and_predictions_by_hand(tmp_path: Path) -> None:
    data = load(tmp_path, {"train": TRAIN, "dev": [*TRAIN, row(2, label=1)]})
    kind = kind_of(data.spec)
    scored = kind.score(data.dev, data.dev, np.array([[2.0, 1.0], [0.0, 0.0], [-1.0, 3.0]]), data, "dev")
    assert scored.metrics == {"accuracy": pytest.approx(2 / 3)}
    assert [(line["gold"], line["predicted"]) for line in scored.predictions] == [(0, 0), (1, 0), (1, 1)]
    assert scored.predictions[0]["probability"] == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-6)
    with pytest.raises(DataError, match=r"shape \(3, 1\), expected \(3, 2\)"):
        kind.score(data.dev, data.dev, np.zeros((3, 1)), data, "dev")
