"""Fields of conversations that change what a row means: they count, or are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from gradgate import sample
from gradgate.errors import DataError
from gradgate.tasks import find_task, kind_of, load_task
from gradgate.tasks.readers.turns import read_turns
from gradgate.tasks.types import IGNORED

PLAIN = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
WHOLE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>"
    "{% if m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}{{ m.content }}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
CALL = [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "adds"}}]


def chat(*answer: dict[str, Any], **row: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "what is it?"}, *answer], **row}


def say(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def features_of(
    folder: Path, row: dict[str, Any], template: str | None, entries: str = ""
) -> tuple[Any, dict[str, Any]]:
    """The tokenizer, and the features of the first row."""
    others = [chat(say(f"it is {n}"), {"role": "user", "content": f"and {n}?"}, say("the same")) for n in range(2)]
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in (row, *others)))
    described = f"kind: generation\nform: messages\nfiles: {{train: train.jsonl, dev: dev.jsonl}}\n{entries}"
    (folder / "task.yaml").write_text(described)
    data = load_task(find_task(folder))
    tokenizer = AutoTokenizer.from_pretrained(sample.DECODER)
    tokenizer.chat_template = template
    return tokenizer, kind_of(data.spec).encode(data.train, tokenizer, 512)[0]


def encoded(folder: Path, row: dict[str, Any], template: str | None, entries: str = "") -> tuple[str, str]:
    """The text of the first row as the model reads it, and the part that the loss counts."""
    tokenizer, features = features_of(folder, row, template, entries)
    learned = [
        token for token, label in zip(features["input_ids"], features["labels"], strict=True) if label != IGNORED
    ]
    return tokenizer.decode(features["input_ids"]), tokenizer.decode(learned)


COUNTED: dict[str, tuple[dict[str, Any], str]] = {
    "tool_calls": (chat(say("", tool_calls=CALL)), '"name": "add"'),
    "tool_calls without content": (chat(say(None, tool_calls=CALL)), '"name": "add"'),  # type: ignore[arg-type]
    "tools": (chat(say("5"), tools=TOOLS), '"description": "adds"'),
    "tools as text": (chat(say("5"), tools=json.dumps(TOOLS)), '"description": "adds"'),
    "reasoning": (chat(say("5", reasoning_content="two and three")), "[two and three]"),
    "parts": (chat(say([{"type": "text", "text": "5 "}, {"type": "text", "text": "or so"}])), "5 or so"),  # type: ignore[arg-type]
    "a system column": (chat(say("5"), system="be brief"), "<system>be brief"),
}


@pytest.mark.parametrize("field", COUNTED)
def test_a_field_reaches_the_model(field: str, tmp_path: Path) -> None:
    row, text = COUNTED[field]
    assert text in encoded(tmp_path, row, WHOLE)[0]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (say("5"), "5"),
        (say("5", reasoning_content="two and three"), "[two and three]5"),
        (say(" so: ", tool_calls=CALL), f"so: {json.dumps(CALL)}"),
    ],
)
def test_a_generated_text_is_compared_with_all_of_the_response(
    answer: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """A model that writes what it learned scores 1, whichever part of a response is in a field."""
    tokenizer, features = features_of(tmp_path, chat(answer), WHOLE)
    assert features["gold"] == text
    assert tokenizer.decode(features["prompt_ids"]).endswith("<assistant>")


@pytest.mark.parametrize("field", ["tool_calls", "tools", "reasoning"])
@pytest.mark.parametrize(
    ("template", "message"),
    [
        (PLAIN, r"train\.jsonl:1 has {}, but the tokenizer's chat template leaves it out"),
        (None, r"train\.jsonl:1 has {}, which only a chat template can write"),
    ],
)
def test_a_field_that_nothing_writes_is_refused(field: str, template: str, message: str, tmp_path: Path) -> None:
    name = "reasoning_content" if field == "reasoning" else field
    with pytest.raises(DataError, match=message.format(name)):
        encoded(tmp_path, COUNTED[field][0], template)


@pytest.mark.parametrize(
    ("first", "second", "learned"),
    [(0, 1, "the second"), (1, 0, "the first"), (1, None, "both"), (None, 0, "the first"), (True, "0", "the first")],
)
@pytest.mark.parametrize("name", ["train", "loss"])
def test_weights_of_turns_decide_what_counts(first: Any, second: Any, learned: str, name: str, tmp_path: Path) -> None:
    turns = [
        say("one", **({} if first is None else {"weight": first})),
        {"role": "user", "content": "and?"},
        say("two", **({} if second is None else {name: second})),
    ]
    found = encoded(tmp_path, chat(*turns), PLAIN)[1]
    assert ("one" in found, "two" in found) == (learned != "the second", learned != "the first")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a half weight": (chat(say("a", weight=0.5)), r"message 2 has weight 0\.5; expected 0 or 1"),
    "no weight at all": (chat(say("a", weight=0)), r"every turn of the assistant has weight 0"),
    "a weighted row": (
        chat(say("a"), weight=0.3),
        r":1 has weight 0\.3, but all rows of a generation task count equally",
    ),
    "a row not to train on": (chat(say("a"), train=False), r":1 has train False"),
    "a row whose loss weighs less": (chat(say("a"), loss_weight=0.5), r":1 has loss_weight 0\.5"),
    "a masked turn": (chat(say("a", mask=True)), r"message 2 has 'mask', which is not read: write weight 1"),
    "a turn that is not said": (chat(say("a", channel="analysis")), r"message 2 has 'channel'.*reasoning_content"),
    "two systems": (
        {"messages": [{"role": "system", "content": "be long"}, say("a")], "system": "be brief"},
        r":1 has 'system' and messages that begin with another system turn",
    ),
    "an older call": (
        chat(say("a", function_call={"name": "f"})),
        r"'function_call', which is not read: the older form",
    ),
    "an image": (chat(say([{"type": "image_url"}])), r"a part of type 'image_url'"),  # type: ignore[arg-type]
    "sound": (chat(say("a", audio={"id": "x"})), r"message 2 has 'audio'"),
    "options of the template": (chat(say("a"), chat_template_kwargs={"x": 1}), r"'chat_template_kwargs', which is not"),
    "functions": (chat(say("a"), functions=TOOLS), r"'functions', which is not read: write them as `tools`"),
    "tools that are none": (chat(say("a"), tools="add"), r"'tools' are not JSON"),
    "half a character": (chat(say("a"), tools=[{"name": "\ud800"}]), r"'tools' contains half a surrogate pair"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_count_is_refused(case: str, tmp_path: Path) -> None:
    row, message = REFUSED[case]
    with pytest.raises(DataError, match=message):
        encoded(tmp_path, row, WHOLE)


TURNS = [{"role": "user", "content": "2+2?"}, say("4")]
RESPONSES: dict[str, dict[str, Any]] = {
    "prompts": {"prompt": "2+2?", "completion": "4"},
    "instructions": {"instruction": "2+2?", "output": "4"},
    "messages": {"messages": TURNS},
    "turns in pairs": {"prompt": TURNS[:1], "completion": TURNS[1:]},
}


@pytest.mark.parametrize("form", RESPONSES)
@pytest.mark.parametrize(
    ("mark", "good", "bad"), [("label", 1, 0), ("kto_tag", True, False), ("Label", "True", "False")]
)
def test_a_response_to_avoid_is_refused(form: str, mark: str, good: Any, bad: Any, tmp_path: Path) -> None:
    save(tmp_path, [{**RESPONSES[form], mark: value} for value in (good, good, bad)])
    with pytest.raises(
        DataError, match=rf":3: '{mark}' is {str(bad).lower()}, which marks a response to avoid \(KTO\)"
    ):
        load_task(find_task(tmp_path))


def save(folder: Path, rows: list[dict[str, Any]]) -> None:
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_labels_that_are_no_marks_stay(tmp_path: Path) -> None:
    save(tmp_path, [{**RESPONSES["prompts"], "label": value} for value in (0, 1, 2)])
    assert load_task(find_task(tmp_path)).train[0]["contents"] == ["2+2?", "4"]


BEFORE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "system": ({"system": "be brief"}, ["system", "user", "assistant"]),
    "system_prompt": ({"system_prompt": "be brief"}, ["system", "user", "assistant"]),
    "history": ({"history": [["hi", "hello"]]}, ["user", "assistant", "user", "assistant"]),
    "tools": ({"tools": TOOLS}, ["user", "assistant"]),
    "no system": ({"system": ""}, ["user", "assistant"]),
}


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize(
    "row",
    [{"prompt": "what is 2+2?", "response": "it is 4"}, {"question": "what is 2+2?", "answer": "it is 4"}],
    ids=["prompts", "questions"],
)
def test_what_comes_before_a_prompt_is_read(row: dict[str, Any], name: str, tmp_path: Path) -> None:
    fields, roles = BEFORE[name]
    save(tmp_path, [{key: f"{text} {n}" for key, text in row.items()} | fields for n in range(3)])
    first = load_task(find_task(tmp_path)).train[0]
    assert first["roles"] == roles
    assert first["messages"] == (name != "no system")
    assert ('"description": "adds"' in first.get("fields", "")) == (name == "tools")


def test_tools_of_named_columns_are_refused(tmp_path: Path) -> None:
    save(tmp_path, [{"asked": "what is it?", "said": f"it is {n}", "tools": TOOLS} for n in range(3)])
    with pytest.raises(DataError, match=r":1 has 'tools', which only messages can use"):
        load_task(find_task(tmp_path, kind="generation", text="asked", label="said"))


def test_weights_and_a_loss_on_all_contradict(tmp_path: Path) -> None:
    row = chat(say("one", weight=0), say("two"))
    with pytest.raises(DataError, match=r"`loss_on: all` counts every turn"):
        encoded(tmp_path, row, PLAIN, "loss_on: all\n")


@pytest.mark.parametrize(("speaker", "role"), [("human", "user"), ("gpt", "assistant"), ("Observation", "tool")])
def test_speakers_of_sharegpt_are_roles(speaker: str, role: str) -> None:
    assert read_turns([{"from": speaker, "value": "a"}], "t:1")[0].role == role
    with pytest.raises(DataError, match=r"t:1, message 1 is from 'bot'"):
        read_turns([{"from": "bot", "value": "a"}], "t:1")


def test_rows_without_fields_are_as_before(tmp_path: Path) -> None:
    encoded(tmp_path, chat(say("a")), PLAIN)
    assert load_task(find_task(tmp_path)).train.column_names == ["roles", "contents", "messages", "place"]
