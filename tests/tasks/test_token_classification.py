"""Tagged tokens: what is read, windows in which no token is lost, and their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gradgate.errors import DataError, NonFiniteError
from gradgate.tasks import TaskData, find_task, kind_of, load_task
from gradgate.tasks.spec import build_spec
from support.kind_folders import save_tags
from support.tiny_folders import save_bert

HEAD = {"kind": "token-classification", "text": "token", "label": "tag"}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(save_bert(tmp_path_factory.mktemp("bert")))


def load(folder: Path, splits: dict[str, str], **values: Any) -> TaskData:
    for split, content in splits.items():
        (folder / f"{split}.txt").write_text(content)
    files = {split: f"{split}.txt" for split in splits}
    form = {"type": "conll", "columns": ["token", "tag"]}
    return load_task(build_spec({"name": "t", **HEAD, "format": form, "files": files, "folder": folder, **values}, "t"))


IOB1 = "a I-X\nb I-X\nc B-X\nd O\n"


def test_tags_stay_as_in_the_source_and_the_head_has_both_marks_of_each_type(tmp_path: Path) -> None:
    data = load(tmp_path, {"train": "a I-X\nb O\nc I-Y\n", "dev": IOB1, "test": "a B-Y\n"}, metric="entity_f1")
    assert data.labels == ("O", "B-X", "I-X", "B-Y", "I-Y")
    assert data.dev[0] == {"tokens": ["a", "b", "c", "d"], "label": [2, 2, 1, 0]}
    assert data.rows == {"train": 1, "dev": 1, "test": 1}
    config = kind_of(data.spec).config_overrides(data)
    assert (config["num_labels"], config["id2label"][3]) == (5, "B-Y")


@pytest.mark.parametrize(
    ("train", "values", "said"),
    [
        ("a I-X\nb O\nc O\nd O\n", {}, ["75.0%"]),
        ("a I-X\nb O\nc O\nd O\n", {"metric": "entity_f1"}, []),
        ("a NOUN\nb VERB\n", {}, []),
    ],
)
def test_accuracy_of_entities_is_a_doubt(train: str, values: Any, said: list[str], tmp_path: Path) -> None:
    notes = [
        note for note in load(tmp_path, dict.fromkeys(("train", "dev"), train), **values).notes if "entity" in note
    ]
    assert len(notes) == len(said)
    assert all(share in note for share, note in zip(said, notes, strict=True))


def test_bare_tags_are_sorted(tmp_path: Path) -> None:
    assert load(tmp_path, {"train": "a NOUN\nb ADJ\n", "dev": "a ADJ\n"}).labels == ("ADJ", "NOUN")


def test_tags_may_be_mapped(tmp_path: Path) -> None:
    data = load(tmp_path, {"train": "a 1\nb 0\n", "dev": "a noun\n"}, label_map={"0": "verb", "1": "noun"})
    assert (data.labels, data.dev[0]["label"]) == (("verb", "noun"), [1])


@pytest.mark.parametrize(
    ("splits", "values", "message"),
    [
        ({"dev": "a B-X\nb B-Z\n"}, {}, r"dev\.txt:2: the dev split has the label 'B-Z', .*'B-X', 'I-X', 'O'"),
        ({"dev": IOB1, "test": "a O\n\nb X\n"}, {}, r"test\.txt:3: the test split has the label 'X'"),
        ({"train": "a O\nb O\n", "dev": IOB1}, {}, r"Every token of t has the tag 'O'"),
        ({"train": "a N\nb V\n", "dev": "a N\n"}, {"metric": "entity_f1"}, r"entity_f1 is for tags in IOB1 or IOB2"),
        ({"dev": IOB1}, {"label_map": {"O": "O"}}, r"train\.txt:1: 'I-X' is not one of the labels"),
        ({"dev": IOB1}, {"label": "pos"}, r"has no column 'pos'; its columns are 'token', 'tag'"),
    ],
)
def test_a_fault_is_named_with_its_line(
    tmp_path: Path, splits: dict[str, str], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, {"train": IOB1, **splits}, **values)


def test_lists_in_json_lines_are_sentences(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X", "Y"]}\n')
    (tmp_path / "task.yaml").write_text("kind: token-classification\nfiles: {train: train.jsonl, dev: dev.jsonl}\n")
    assert load_task(find_task(tmp_path)).dev[0] == {"tokens": ["a", "b"], "label": [0, 1]}
    (tmp_path / "dev.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X"]}\n')
    with pytest.raises(DataError, match=r"dev\.jsonl:1 has 2 tokens and 1 tags"):
        load_task(find_task(tmp_path))
    (tmp_path / "dev.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X", -100]}\n')
    with pytest.raises(DataError, match=r"dev\.jsonl:1.*the tag is -100, which marks tokens that are not scored"):
        load_task(find_task(tmp_path))
    (tmp_path / "dev.jsonl").write_text('{"tokens": "ab", "tags": ["X"]}\n')
    with pytest.raises(DataError, match=r"dev\.jsonl:1: 'tokens' is not a list but str"):
        load_task(find_task(tmp_path))


def encode(tokens: list[str], tokenizer: PreTrainedTokenizerFast, max_length: int, folder: Path) -> tuple[Any, Any]:
    content = "".join(f"{token}\t{'X' if number % 2 else 'Y'}\n" for number, token in enumerate(tokens))
    data = load(folder, {"train": content, "dev": content})
    return data, kind_of(data.spec).encode(data.dev, tokenizer, max_length)


def test_the_first_sub_word_has_the_label(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    _, features = encode(["good-day", "bad", "a"], bert, 16, tmp_path)
    assert bert.convert_ids_to_tokens(features[0]["input_ids"]) == [
        "[CLS]",
        "good",
        "[UNK]",
        "day",
        "bad",
        "a",
        "[SEP]",
    ]
    assert features["labels"][:] == [[-100, 1, -100, -100, 0, 1, -100]]


@pytest.mark.parametrize("max_length", [4, 5, 7, 64])
def test_every_token_is_in_one_window(bert: PreTrainedTokenizerFast, max_length: int, tmp_path: Path) -> None:
    tokens = ["a", "good-day-was-very-fine", "\u200b", "bad", "a-day", "the", "road", "\u0007", "not"]
    data, features = encode(tokens, bert, max_length, tmp_path)
    labelled = [label for window in features["labels"][:] for label in window if label != -100]
    assert labelled == data.dev[0]["label"]
    assert all(len(window) <= max_length for window in features["input_ids"][:])
    assert (len(features) > 1) == (max_length < 64)
    assert set(features["row"][:]) == {0}


def test_byte_level_tokens_begin_with_a_space(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*alphabet, "Ġa", "<pad>"])}
    bpe = Tokenizer(models.BPE(vocabulary, [("Ġ", "a")]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>")
    _, features = encode(["ab", "ca"], tokenizer, 16, tmp_path)
    assert tokenizer.convert_ids_to_tokens(features[0]["input_ids"]) == ["Ġa", "b", "Ġ", "c", "a"]


def test_batches_are_padded_at_their_end(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data = load_task(find_task(save_tags(tmp_path)))
    kind = kind_of(data.spec)
    features = kind.encode(data.dev, bert, 32).remove_columns("row")
    for side in ("left", "right"):
        bert.padding_side = side
        batch = kind.collator(bert)([features[0], features[1]])
        assert batch["labels"].shape == batch["input_ids"].shape
        for row, feature in enumerate((features[0], features[1])):
            length = len(feature["labels"])
            assert batch["labels"][row, :length].tolist() == feature["labels"]
            assert (batch["labels"][row, length:] == -100).all()
            assert batch["attention_mask"][row].tolist() == [1] * length + [0] * (batch["labels"].shape[1] - length)


def test_windows_are_joined_and_padding_is_left_out(bert: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data, features = encode(["a", "good-day", "bad", "the", "road"], bert, 5, tmp_path)
    kind, gold = kind_of(data.spec), data.dev[0]["label"]
    width = max(map(len, features["labels"][:])) + 2
    outputs = np.full((len(features), width, 2), -100.0, dtype=np.float32)
    for window, labels in enumerate(features["labels"][:]):
        for position, label in enumerate(labels):
            outputs[window, position] = (0, 1) if label == 1 else (1, 0)
    scored = kind.score(data.dev, features, outputs, data, "dev")
    assert scored.metrics == {"accuracy": 1.0, "macro_f1": 1.0}
    assert scored.predictions == [{"index": 0, "gold": list("YXYXY"), "predicted": list("YXYXY")}]
    assert gold == [1, 0, 1, 0, 1]
    outputs[0, 1] = np.nan
    with pytest.raises(NonFiniteError, match="sentence 0"):
        kind.score(data.dev, features, outputs, data, "dev")
    with pytest.raises(DataError, match="is its head the one that this task needs"):
        kind.score(data.dev, features, outputs[..., :1], data, "dev")
