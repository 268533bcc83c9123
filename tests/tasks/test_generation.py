"""Generation tasks: prompts and responses, messages, chat templates, labels, and every fault in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from gradgate.errors import DataError, RunError
from gradgate.tasks import TaskData, find_task, kind_of, load_task, metrics
from gradgate.tasks.kinds.generation import Generation, prompt_of
from gradgate.tasks.types import GenerationOptions
from gradgate.tasks.unlabelled import SPLIT, examples_of, load_unlabelled, read_text
from support.generators import TEMPLATE, save_rows, word_tokenizer

IGNORED = -100
HALF = "half \ud800"
PAIR = {"prompt": "the day ", "response": "was good"}
TALK = [
    {"role": "user", "content": "the day"},
    {"role": "assistant", "content": "was good"},
    {"role": "user", "content": "a film"},
    {"role": "assistant", "content": "was bad"},
]


def task(folder: Path, *rows: dict[str, Any], yaml: str = "", **flags: Any) -> TaskData:
    save_rows(folder, {"train": list(rows), "dev": list(rows)})
    if yaml:
        (folder / "task.yaml").write_text(f"kind: generation\nfiles: {{train: train.jsonl, dev: dev.jsonl}}\n{yaml}")
    return load_task(find_task(str(folder), **flags))


def features(held: TaskData, **tokenizer: Any) -> list[dict[str, Any]]:
    template = tokenizer.pop("template", None)
    words = word_tokenizer(**tokenizer)
    words.chat_template = template
    encoded = kind_of(held.spec).encode(held.train, words, 32)
    return [{**row, "words": words.convert_ids_to_tokens(row["input_ids"])} for row in encoded]


def learned(row: dict[str, Any]) -> list[str]:
    """The words that the loss counts; each label is its own token."""
    assert all(label in (IGNORED, token) for label, token in zip(row["labels"], row["input_ids"], strict=True))
    return [word for word, label in zip(row["words"], row["labels"], strict=True) if label != IGNORED]


def test_columns_tell_the_kind_and_the_loss_selects(tmp_path: Path) -> None:
    spec = task(tmp_path, PAIR).spec
    assert (spec.kind, spec.metric, spec.text_columns, spec.label_column) == (
        "generation",
        "loss",
        ("prompt",),
        "response",
    )
    assert metrics.greater_is_better("chrf")
    assert not metrics.greater_is_better("perplexity")


def test_labels_are_the_response_and_its_end_and_nothing_else(tmp_path: Path) -> None:
    (row,) = features(task(tmp_path, PAIR))
    assert row["words"] == ["the", "day", "was", "good", "[EOS]"]
    assert learned(row) == ["was", "good", "[EOS]"]
    assert row["prompt_ids"] == row["input_ids"][:2]
    (all_of_it,) = features(task(tmp_path, PAIR, yaml="loss_on: all\n"))
    assert learned(all_of_it) == all_of_it["words"]


def test_what_stands_between_prompt_and_response_is_the_tasks(tmp_path: Path) -> None:
    (row,) = features(task(tmp_path, {"prompt": "the day", "response": "was good"}, yaml='separator: " not "\n'))
    assert row["words"] == ["the", "day", "not", "was", "good", "[EOS]"]
    assert learned(row) == ["was", "good", "[EOS]"]


@pytest.mark.parametrize("separator", [" => ", " =>", "\n", " "])
def test_a_response_is_generated_from_the_tokens_that_it_was_trained_behind(separator: str, tmp_path: Path) -> None:
    """Byte-level tokens hold the space before a word, so a prompt must not end with a space of its own."""
    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["[EOS]"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    pieces.train_from_iterator(["the day => was good", "a wet wig won a web war"], trainer)
    pieces.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token="[EOS]")
    held = task(tmp_path, {"prompt": "the day", "response": "was good"}, yaml=f"separator: {json.dumps(separator)}\n")
    (row,) = kind_of(held.spec).encode(held.train, tokenizer, 32)
    response = [label for label in row["labels"] if label != IGNORED]
    assert row["prompt_ids"] + response == row["input_ids"]
    assert tokenizer.decode(response).strip() == "was good[EOS]"


def test_words_that_run_into_one_are_said(tmp_path: Path) -> None:
    bare = {"prompt": "the day", "response": "was good"}
    assert any("'...the daywas good...'" in note for note in task(tmp_path, bare).notes)
    assert not any("joined" in note for note in task(tmp_path, PAIR).notes)
    assert not any("joined" in note for note in task(tmp_path, bare, yaml="separator: ' '\n").notes)


def test_a_prompt_has_no_end_token_though_the_tokenizer_ends_texts(tmp_path: Path) -> None:
    (row,) = features(task(tmp_path, PAIR), ends_texts=True)
    assert row["prompt_ids"] == row["input_ids"][:2]
    assert learned(row)[:3] == ["was", "good", "[EOS]"]


def test_messages_go_through_the_chat_template_and_the_last_turn_is_learned(tmp_path: Path) -> None:
    held = task(tmp_path, {"messages": TALK})
    (row,) = features(held, template=TEMPLATE)
    assert row["words"][:4] == ["user", "the", "day", "[EOS]"]
    assert learned(row) == ["was", "bad", "[EOS]"]
    assert row["prompt_ids"] == row["input_ids"][: len(row["words"]) - 3]
    assert prompt_of(held.train[0]) == TALK[:3]
    (every,) = features(task(tmp_path, {"messages": TALK}, yaml="turns: all\n"), template=TEMPLATE)
    assert learned(every) == ["was", "good", "[EOS]", "was", "bad", "[EOS]"]


def test_a_template_is_used_where_the_task_asks_for_it(tmp_path: Path) -> None:
    (chat,) = features(task(tmp_path, PAIR, yaml="template: chat\n"), template=TEMPLATE)
    assert chat["words"] == ["user", "the", "day", "[EOS]", "assistant", "was", "good", "[EOS]"]
    (auto,) = features(task(tmp_path, PAIR, yaml="template: auto\n"), template=TEMPLATE)
    assert auto["words"] == ["the", "day", "was", "good", "[EOS]"]
    (none,) = features(task(tmp_path, {"messages": TALK}, yaml="template: none\n"), template=TEMPLATE)
    assert none["words"] == ["the", "day", "was", "good", "a", "film", "was", "bad", "[EOS]"]
    with pytest.raises(RunError, match=r"The task sets `template: chat`, but the tokenizer .* has no chat template"):
        features(task(tmp_path, PAIR, yaml="template: chat\n"))


def test_a_template_that_fails_or_rewrites_is_named_with_the_line(tmp_path: Path) -> None:
    broken = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(DataError, match=r"train.jsonl:1: the tokenizer's chat template fails .*roles must alternate"):
        features(task(tmp_path, {"messages": TALK}), template=broken)
    last_alone = "{% for m in messages[-2:] %}{{ m.content }} [EOS] {% endfor %}"
    with pytest.raises(DataError, match=r"train.jsonl:1, message 2: .* changes this response when other turns follow"):
        features(task(tmp_path, {"messages": TALK}, yaml="turns: all\n"), template=last_alone)


def test_an_encoder_reads_the_prompt_and_labels_are_the_response(tmp_path: Path) -> None:
    held = task(tmp_path, {"prompt": "the day", "response": "was good"})
    words = word_tokenizer(ends_texts=True)
    row = Generation(GenerationOptions(), encoder_decoder=True).encode(held.train, words, 3)[0]
    assert words.convert_ids_to_tokens(row["input_ids"]) == ["the", "day", "[EOS]"]
    assert words.convert_ids_to_tokens(row["labels"]) == ["was", "good", "[EOS]"]
    cut = Generation(GenerationOptions(), encoder_decoder=True).encode(held.train, words, 2)[0]
    assert (len(cut["input_ids"]), len(cut["labels"]), cut["cut"]) == (2, 2, 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "the day"}, r"train.jsonl:2 has no response; expected text"),
        ({"prompt": "the day", "response": " "}, r"train.jsonl:2: the response is blank"),
        ({"prompt": "the day", "response": 3}, r"train.jsonl:2 has a response that is not text but 3"),
        ({"prompt": " ", "response": "good"}, r"train.jsonl:2: the response has no prompt before it"),
        ({"prompt": 3, "response": "good"}, r"train.jsonl:2: 'prompt' is not text but int"),
        ({"response": "good"}, r"train.jsonl:2 has no 'prompt'"),
        ({"prompt": "the day", "response": HALF}, r"train.jsonl:2: the response contains half a surrogate pair"),
    ],
)
def test_a_row_that_cannot_be_learned_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        task(tmp_path, PAIR, row)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], r"train.jsonl:2: messages are \[\]. Expected a list such as"),
        ([{"content": "the"}], r"train.jsonl:2, message 1 has no role"),
        ([TALK[0], {"role": "assistant", "content": None}], r"train.jsonl:2, message 2: the content of 'assistant' is"),
        (
            TALK[:3],
            r"train.jsonl:2 has no response; expected text, or messages that end with one by the role 'assistant'",
        ),
        (TALK[1:2], r"train.jsonl:2: the response has no prompt before it"),
        ([{"role": "user", "content": HALF}, TALK[1]], r"train.jsonl:2: message 1 contains half a surrogate pair"),
        ([{**TALK[0], "name": HALF}, TALK[1]], r"train.jsonl:2: message 1 contains half a surrogate pair"),
    ],
)
def test_messages_that_are_no_conversation_are_named(tmp_path: Path, messages: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        task(tmp_path, {"messages": TALK}, {"messages": messages})


def test_tables_of_any_form_hold_the_same_rows(tmp_path: Path) -> None:
    import csv

    import pyarrow as pa
    from pyarrow import parquet

    wanted = task(tmp_path / "jsonl", {"messages": TALK}).fingerprint
    for name in ("csv", "parquet"):
        (tmp_path / name).mkdir()
    for split in ("train", "dev"):
        with (tmp_path / f"csv/{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["messages"], [json.dumps(TALK)]])
        parquet.write_table(pa.table({"messages": [TALK]}), tmp_path / f"parquet/{split}.parquet")
    for name in ("csv", "parquet"):
        assert load_task(find_task(str(tmp_path / name))).fingerprint == wanted
    renamed = [{"question": "the day", "more": "a film", "answer": "was good"}]
    (tmp_path / "flags").mkdir()
    held = task(tmp_path / "flags", *renamed, kind="generation", text="question", text_pair="more", label="answer")
    assert held.train[0]["contents"] == ["the day\na film", "was good"]
    of_trl = task(tmp_path / "trl", {"prompt": "the day", "completion": "was good"})
    assert of_trl.train[0]["contents"] == ["the day", "was good"]


def test_rows_without_responses_can_be_predicted(tmp_path: Path) -> None:
    spec = task(tmp_path, PAIR).spec
    texts = "the day\na film"
    held = load_unlabelled(spec, None, examples_of(spec, read_text(texts, spec))).tests[SPLIT]
    assert [prompt_of(row) for row in held] == texts.split("\n")
    asked = json.dumps({"messages": TALK[:3]})
    held = load_unlabelled(spec, None, examples_of(spec, read_text(asked, spec))).tests[SPLIT]
    assert [prompt_of(row) for row in held] == [TALK[:3]]


def test_a_test_split_without_responses_is_left_out(tmp_path: Path) -> None:
    save_rows(tmp_path, {"train": [PAIR], "dev": [PAIR], "test": [{"prompt": "the day"}]})
    held = load_task(find_task(str(tmp_path)))
    assert held.tests == {}
    assert any("test has no responses and is not scored" in note for note in held.notes)


def test_xglues_generation_tasks_have_their_columns_on_the_hub() -> None:
    titles, questions = find_task("ntg"), find_task("qg")
    assert (titles.text_columns, titles.label_column) == (("news_body",), "news_title")
    assert (questions.text_columns, questions.label_column) == (("answer_passage",), "question")
    assert questions.languages == ("en", "de", "es", "fr", "it", "pt")
    assert titles.places["test.ru"] == "test.ru"


def test_texts_are_scored_without_the_white_space_around_them(tmp_path: Path) -> None:
    held = task(tmp_path, PAIR, {"prompt": "a film ", "response": "was bad"})
    kind = kind_of(held.spec)
    features = Dataset.from_dict({"gold": ["was good", "was bad"]})
    scored = kind.score(held.train, features, [" was good\n", "was not bad"], held, "dev")
    assert scored.metrics["exact_match"] == 0.5
    assert scored.metrics["rougeL"] == pytest.approx((1 + 0.8) / 2)
    assert scored.predictions[1] == {"index": 1, "prompt": "a film ", "gold": "was bad", "predicted": "was not bad"}
