"""Questions on texts: what is read, windows, and the best answers in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gradgate.errors import DataError, NonFiniteError, RunError
from gradgate.tasks import TaskData, find_task, kind_of, load_task
from gradgate.tasks.kinds.spans import LONGEST
from gradgate.tasks.spec import build_spec
from support.tiny_folders import OTHER, save_bert

HEAD: dict[str, Any] = {"name": "q", "kind": "question-answering", "format": {"type": "squad"}}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(save_bert(tmp_path_factory.mktemp("bert")))


def load(folder: Path, splits: dict[str, list[tuple[str, str, list[tuple[str, int]]]]], **values: Any) -> TaskData:
    """Splits of (question, context, answers with their starts)."""
    for split, rows in splits.items():
        paragraphs = []
        for number, (question, context, answers) in enumerate(rows):
            found = [{"text": text, "answer_start": start} for text, start in answers]
            paragraphs.append(
                {"context": context, "qas": [{"id": f"{number}", "question": question, "answers": found}]}
            )
        (folder / f"{split}.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    files = {split: f"{split}.json" for split in splits}
    return load_task(build_spec({**HEAD, "files": files, "folder": folder, **values}, "q"))


GOOD = [("the day", "a fine day", [("fine", 2)])]


def test_starts_count_unicode_characters(tmp_path: Path) -> None:
    data = load(tmp_path, {"train": GOOD, "dev": [("q", "𝔘 é 東京 ok", [("東京", 4), ("ok", 7)])]})
    assert data.dev[0] == {
        "id": "0",
        "question": "q",
        "context": "𝔘 é 東京 ok",
        "answers": ["東京", "ok"],
        "starts": [4, 7],
    }
    with pytest.raises(DataError, match=r"dev\.json, row 1 \(question '0'\): the answer '東京' is not at character 6"):
        load(tmp_path, {"train": GOOD, "dev": [("q", "𝔘 é 東京 ok", [("東京", 6)])]})


@pytest.mark.parametrize(
    ("rows", "values", "message"),
    [
        ([("q", "a b", [("b", -1)])], {}, r"the answer 'b' is not at character -1"),
        ([("q", "a b", [("", 0)])], {}, r"the answer '' is not at character 0"),
        ([("q", " ", [])], {}, r"row 1: 'context' is not text but ' '"),
        (GOOD, {"text": "question"}, r"needs two text columns, `text: \[question, context\]`"),
        (GOOD, {"label_map": {"a": "b"}}, r"label_map names classes"),
        (GOOD, {"label": "gold"}, r"has no column 'gold'"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, rows: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, {"train": GOOD, "dev": rows}, **values)


def test_answers_may_be_a_mapping_of_lists_as_on_the_hub(tmp_path: Path) -> None:
    row = {"question": "q", "context": "a b", "answers": {"text": ["b"], "answer_start": [2]}}
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "task.yaml").write_text("kind: question-answering\nfiles: {train: train.jsonl, dev: dev.jsonl}\n")
    assert load_task(find_task(tmp_path)).train[0]["answers"] == ["b"]
    (tmp_path / "dev.jsonl").write_text(json.dumps({**row, "answers": "b"}) + "\n")
    with pytest.raises(DataError, match=r"dev\.jsonl:1 \(question 0\): expected answers as"):
        load_task(find_task(tmp_path))


def test_a_test_split_without_answers_is_left_out(tmp_path: Path) -> None:
    load(tmp_path, {"train": GOOD, "dev": GOOD})
    content = {"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1", "question": "q"}]}]}]}
    (tmp_path / "test.json").write_text(json.dumps(content))
    files = {"train": "train.json", "dev": "dev.json", "test": "test.json"}
    data = load_task(build_spec({**HEAD, "files": files, "folder": tmp_path}, "q"))
    assert (data.tests, data.notes[0][:38]) == ({}, "test is unlabelled and not scored (/" + data.notes[0][36:38])


@pytest.mark.parametrize("unanswered", [[], [("the day", "a road", [])]])
def test_a_test_split_with_empty_answers_is_scored_only_if_train_has_such_questions(
    unanswered: list[Any], tmp_path: Path
) -> None:
    hidden = [("the day", "a fine day", []), ("q", "a", [])]
    data = load(tmp_path, {"train": [*GOOD, *unanswered], "dev": GOOD, "test": hidden})
    assert list(data.tests) == (["test"] if unanswered else [])
    assert [note for note in data.notes if "unlabelled" in note] == (
        [] if unanswered else [f"test is unlabelled and not scored ({tmp_path}/test.json)"]
    )


def test_a_question_without_an_id_has_the_number_of_its_row(tmp_path: Path) -> None:
    row = {"question": "q", "context": "a b", "answers": {"text": ["b"], "answer_start": [2]}}
    rows = [{**row, "id": "x"}, row, {**row, "id": None}]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (tmp_path / "task.yaml").write_text("kind: question-answering\nfiles: {train: train.jsonl, dev: dev.jsonl}\n")
    assert load_task(find_task(tmp_path)).dev["id"][:] == ["x", "1", "2"]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(OTHER), min_size=1, max_size=60), st.data(), st.sampled_from([16, 20, 48]))
def test_the_answer_is_where_its_characters_are(
    bert: PreTrainedTokenizerFast, words: list[str], draw: st.DataObject, max_length: int
) -> None:
    first = draw.draw(st.integers(0, len(words) - 1))
    last = draw.draw(st.integers(first, min(first + 3, len(words) - 1)))
    begin = len(" ".join([*words[:first], ""]))
    answer = " ".join(words[first : last + 1])
    row = {
        "id": ["0"],
        "question": ["the day"],
        "context": [" ".join(words)],
        "answers": [[answer]],
        "starts": [[begin]],
    }
    features = QA.encode(Dataset.from_dict(row), bert, max_length)
    held = 0
    for window in features:
        low, high = window["start_positions"], window["end_positions"]
        assert len(window["input_ids"]) <= max_length
        if low == window["null"]:
            assert high == window["null"] == 0
        else:
            held += 1
            assert row["context"][0][window["begins"][low] : window["ends"][high]] == answer
    seen = {begin for window in features["begins"][:] for begin in window if begin >= 0}
    assert len(seen) == len(words)  # no word of the context is lost
    assert held >= 1  # an answer of four words is shorter than what windows share


QA = kind_of(build_spec({"name": "q", "kind": "question-answering"}, "q"))


def test_long_questions_are_cut_so_that_the_context_is_seen(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data = load(tmp_path, {"train": GOOD, "dev": [("the " * 100, "a fine day " * 20, [("fine", 2)])]})
    features = QA.encode(data.dev, bert, 32)
    assert all(len(ids) <= 32 for ids in features["input_ids"][:])
    assert sum(begin >= 0 for begin in features[0]["begins"]) == 32 - 8 - 3
    with pytest.raises(RunError, match=r"max_length=15 leaves no room .* use 16 or more"):
        QA.encode(data.dev, bert, 15)


def peaks(features: Dataset, at: dict[int, tuple[int, int, float]], null: float = -9.0) -> tuple[Any, Any]:
    """Start and end logits: a height at one span of some windows, and at the null of all."""
    width = max(map(len, features["input_ids"][:])) + 3
    starts, ends = (np.full((len(features), width), -5.0, dtype=np.float32) for _ in range(2))
    for window, place in enumerate(features["null"][:]):
        starts[window, place] = ends[window, place] = null
    for window, (first, last, height) in at.items():
        starts[window, first] = ends[window, last] = height
    return starts, ends


def test_the_best_answer_of_all_windows_is_taken(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    context = "a fine day was " * 12
    data = load(tmp_path, {"train": GOOD, "dev": [("the day", context, [("fine day", 2)])]})
    features = QA.encode(data.dev, bert, 24)
    assert len(features) > 2
    last = max(position for position, begin in enumerate(features[1]["begins"]) if begin >= 0)
    outputs = peaks(features, {0: (5, 6, 1.0), 1: (last - 1, last, 2.0)})
    outputs[0][:, -3:] = outputs[1][:, -3:] = 99.0  # padding
    outputs[0][0, 0] = outputs[1][0, 0] = 50.0  # no part of the context
    scored = QA.score(data.dev, features, outputs, data, "dev")
    expected = context[features[1]["begins"][last - 1] : features[1]["ends"][last]]
    found = scored.predictions[0]
    assert (found["id"], found["gold"], found["predicted"]) == ("0", ["fine day"], expected)
    assert found["best"][0] == {"text": expected, "score": 4.0}
    assert found["best"][1]["text"] == context[features[0]["begins"][5] : features[0]["ends"][6]]
    assert "no_answer_score" not in found


def test_answers_are_neither_reversed_nor_too_long(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    context = "a " * 50
    data = load(tmp_path, {"train": GOOD, "dev": [("the day", context, [("a", 0)])]})
    features = QA.encode(data.dev, bert, 64)
    low = features[0]["begins"].index(0)
    outputs = peaks(features, {0: (low + 9, low + 2, 3.0)})
    assert len(QA.score(data.dev, features, outputs, data, "dev").predictions[0]["predicted"].split()) <= LONGEST
    outputs = peaks(features, {0: (low, low + LONGEST, 3.0)})
    assert len(QA.score(data.dev, features, outputs, data, "dev").predictions[0]["predicted"].split()) <= LONGEST
    outputs = peaks(features, {0: (low, low + LONGEST - 1, 3.0)})
    assert len(QA.score(data.dev, features, outputs, data, "dev").predictions[0]["predicted"].split()) == LONGEST


@pytest.mark.parametrize(("threshold", "answered"), [(0.0, False), (1.9, False), (2.1, True)])
def test_no_answer_must_be_better_by_the_threshold(
    bert: PreTrainedTokenizerFast, threshold: float, answered: bool, tmp_path: Path
) -> None:
    train = [*GOOD, ("the day", "a road", [])]
    data = load(tmp_path, {"train": train, "dev": train}, no_answer_threshold=threshold)
    features = QA.encode(data.dev, bert, 24)
    place = features[0]["begins"].index(2)
    scored = QA.score(data.dev, features, peaks(features, {0: (place, place, 1.0)}, null=2.0), data, "dev")
    assert scored.predictions[0]["predicted"] == ("fine" if answered else "")
    assert scored.predictions[0]["no_answer_score"] == 4.0
    assert scored.predictions[1]["predicted"] == ""
    assert scored.metrics["exact_match"] == (1.0 if answered else 0.5)


def test_the_language_of_a_split_decides_its_normalisation(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    rows = [("the day", "the die day", [("day", 8)])]
    splits = {"train": GOOD, "dev": GOOD, "test.de": rows, "test.en": rows}
    data = load(tmp_path, splits, normalization="mlqa", languages=("en", "de"))
    features = QA.encode(data.tests["test.de"], bert, 24)
    low = features[0]["begins"].index(4)
    outputs = peaks(features, {0: (low, low + 1, 1.0)})  # "die day"
    exact = {
        split: QA.score(rows, features, outputs, data, split).metrics["exact_match"]
        for split, rows in data.tests.items()
    }
    assert exact == {"test.de": 1.0, "test.en": 0.0}


def test_outputs_that_cannot_be_scored_are_refused(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data = load(tmp_path, {"train": GOOD, "dev": GOOD})
    features = QA.encode(data.dev, bert, 24)
    with pytest.raises(DataError, match="no start and end logits"):
        QA.score(data.dev, features, np.zeros((1, 10)), data, "dev")
    outputs = peaks(features, {})
    outputs[1][0, 3] = np.nan
    with pytest.raises(NonFiniteError, match="question 0 are not finite"):
        QA.score(data.dev, features, outputs, data, "dev")


def test_batches_are_padded_at_their_end(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data = load(tmp_path, {"train": GOOD, "dev": [*GOOD, ("the", "a fine day was", [("was", 11)])]})
    features = QA.encode(data.dev, bert, 24)
    batch = QA.collator(bert)([features[0], features[1]])
    assert set(batch) == {"input_ids", "token_type_ids", "attention_mask", "start_positions", "end_positions"}
    assert bert.decode(batch["input_ids"][1][batch["start_positions"][1]]) == "was"
    assert bert.decode(batch["input_ids"][0]) == "[CLS] the day [SEP] a fine day [SEP]"


def test_spans_of_a_real_tokenizer_are_those_of_the_text(shared: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(shared / "models/all-MiniLM-L6-v2")
    file = str(shared / "data/mlqa/dev/dev-context-zh-question-zh.json")
    files = {"train": str(shutil.copy(file, tmp_path / "train.json")), "dev": file}
    data = load_task(build_spec({**HEAD, "files": files, "folder": shared}, "q"))
    rows = data.dev.select(range(12))
    found = set()
    for window in QA.encode(rows, tokenizer, 384):
        low, high = window["start_positions"], window["end_positions"]
        if low != window["null"]:
            found.add(window["row"])
            row = rows[window["row"]]
            begin, end = window["begins"][low], window["ends"][high]
            assert row["starts"][0] in range(begin, end)
            assert row["answers"][0] in row["context"][begin:end]
    assert found == set(range(12))
