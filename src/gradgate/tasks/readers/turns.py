"""Read conversations: lists of turns, with the fields that change what a turn means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import MISSING, SourceTable, check_characters

ASSISTANT, USER, SYSTEM = "assistant", "user", "system"
_SHAREGPT = {
    "human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "chatgpt": ASSISTANT, "bing": ASSISTANT,
    "bard": ASSISTANT, "model": ASSISTANT, "system": SYSTEM, "tool": "tool", "function": "tool", "observation": "tool",
}  # fmt: skip
"""Speakers of ShareGPT's form -> roles of chat templates."""
RENDERED = ("tool_calls", "reasoning_content", "reasoning", "thinking")
"""Fields of a turn that the chat template must write, or the turn would mean something else."""
_PASSED_ON = (*RENDERED, "name", "tool_call_id")
_WEIGHTS = ("weight", "train", "training", "loss", "loss_weight")
_WEIGHTS_OF_ROWS = ("weight", "train", "training", "loss_weight", "sample_weight")
MARKS = ("label", "kto_tag", "is_preferred")
"""Columns of KTO's data that say whether a response is a good one."""
_TRUE, _FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")
_REFUSED = {
    "function_call": "the older form of tool_calls: write it as a list of tool_calls",
    "function_calls": "write them as a list of tool_calls",
    "refusal": "write the refusal as the content of the turn",
    "audio": "gradgate trains on text",
    "images": "gradgate trains on text",
    "prefix": "give the beginning of the response as a part of the prompt",
    "train_detail": "give each part a turn of its own, with weight 0 or 1",
    "mask": "write weight 1 for a turn to learn and 0 for another",
    "channel": "write what is not said, such as analysis, as `reasoning_content` of the turn that follows",
}
_REFUSED_OF_ROWS = {
    "functions": "write them as `tools`",
    "images": "gradgate trains on text",
    "image": "gradgate trains on text",
    "videos": "gradgate trains on text",
    "audios": "gradgate trains on text",
    "chat_template_kwargs": "remove the column, and rows that need it",
    "parallel_tool_calls": "remove the column, if the template does without it",
}


@dataclass(frozen=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: the speaker: ``user``, ``assistant``, ``system`` or another role of the chat template.
        content: the text.
        fields: further fields for the chat template, such as ``tool_calls``.
        weight: whether the loss counts the turn, 1 or 0; None if its row does not say so of any turn.
    """

    role: str
    content: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    weight: int | None = None

    def message(self, without: Sequence[str] = ()) -> dict[str, Any]:
        """Return the turn as chat templates read it, without some of its fields."""
        kept = {name: value for name, value in self.fields.items() if name not in without}
        return {"role": self.role, "content": self.content, **kept}


def read_turns(cell: Any, place: str) -> list[Turn]:
    """Read the turns of a cell of ``messages``: a list of objects with ``role`` and ``content``, or its JSON text.

    ShareGPT's ``from`` and ``value`` stand for these. Parts of a content that are text are joined. If a turn has a
    weight, those of the assistant without one weigh 1, as OpenAI's fine-tuning reads them.

    Raises:
        DataError: anything else, with the place of the row and the number of the turn.
    """
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: messages are not JSON ({error}): {cell!r:.80}. {_EXPECTED}") from None
    if not isinstance(cell, list | tuple) or not cell:
        raise DataError(f"{place}: messages are {cell!r:.80}. {_EXPECTED}")
    turns = [_turn(item, f"{place}, message {number}") for number, item in enumerate(cell, 1)]
    if any(turn.weight is not None for turn in turns):
        turns = [Turn(turn.role, turn.content, turn.fields, _weighted(turn)) for turn in turns]
        if not any(turn.weight and turn.role == ASSISTANT for turn in turns):
            raise DataError(f"{place}: every turn of the assistant has weight 0, so nothing is learned; remove the row")
    return turns


def _weighted(turn: Turn) -> int:
    return int(turn.role == ASSISTANT) if turn.weight is None else turn.weight


def check_row_fields(table: SourceTable, response: str | None = None) -> None:
    """Refuse columns of conversations that change what a row means and have no effect here.

    Args:
        table: rows of prompts or messages.
        response: the column of the responses; None if they are in the messages.

    Raises:
        DataError: such a column with a cell that is not empty, with the place of the first.
    """
    _check_marks(table, response)
    for name, remedy in _REFUSED_OF_ROWS.items():
        for row, cell in enumerate(table.columns.get(name, ())):
            if _is_set(cell):
                raise DataError(f"{table.place(row)} has {name!r}, which is not read: {remedy}")
    for name in _WEIGHTS_OF_ROWS:
        for row, cell in enumerate(table.columns.get(name, ())):
            if _is_set(cell) and _word(cell) not in _TRUE:
                raise DataError(
                    f"{table.place(row)} has {name} {cell!r:.20}, but all rows of a generation task count equally. "
                    f"Remove the column and the rows that should not count, or give single turns weight 0 or 1"
                )


def _check_marks(table: SourceTable, response: str | None) -> None:
    """Raise DataError if a row's label says that its response is one to avoid, as in KTO's data."""
    for name in (column for column in table.columns if column.lower() in MARKS and column != response):
        words = [_word(cell) if _is_set(cell) else "" for cell in table.columns[name]]
        are_marks = all(word in ("", *_TRUE, *_FALSE) for word in words)
        for row, word in enumerate(words):
            if word == "false" or (are_marks and word in _FALSE):
                raise DataError(
                    f"{table.place(row)}: {name!r} is {word}, which marks a response to avoid (KTO), but a generation "
                    f"task learns every response. Keep only the rows where it is true, or attach gradgate to TRL's "
                    f"KTOTrainer. If {name!r} means something else, remove it"
                )


def tools_of(table: SourceTable, row: int) -> list[Any] | None:
    """Return the descriptions of tools of a row, for the chat template; None without any.

    Raises:
        DataError: anything else than a list of objects, or its JSON text.
    """
    cell = table.columns["tools"][row] if "tools" in table.columns else None
    if not _is_set(cell):
        return None
    place = table.place(row)
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: 'tools' are not JSON ({error}): {cell!r:.80}. {_EXPECTED_TOOLS}") from None
    if not isinstance(cell, list) or not all(isinstance(tool, Mapping) for tool in cell):
        raise DataError(f"{place}: 'tools' are {cell!r:.80}. {_EXPECTED_TOOLS}")
    tools = [_plain(tool) for tool in cell]
    check_characters(json.dumps(tools, ensure_ascii=False), "'tools'", lambda: place)
    return tools or None


def _is_set(cell: Any) -> bool:
    return cell is not None and cell is not MISSING and cell not in ("", [], {}, "[]")


def _word(cell: Any) -> str:
    return str(cell).strip().lower()


def _turn(item: Any, place: str) -> Turn:
    if isinstance(item, Mapping) and "role" not in item and {"from", "value"} <= set(item):
        speaker = item["from"]
        if not isinstance(speaker, str) or speaker.lower() not in _SHAREGPT:
            raise DataError(
                f"{place} is from {speaker!r:.40}; expected one of {', '.join(_SHAREGPT)}. Correct the row or remove it"
            )
        rest = {name: value for name, value in item.items() if name not in ("from", "value")}
        item = {"role": _SHAREGPT[speaker.lower()], "content": item["value"], **rest}
    role, content = (item.get("role"), item.get("content")) if isinstance(item, Mapping) else (None, None)
    if not isinstance(role, str) or not role.strip():
        raise DataError(f"{place} has no role: {item!r:.80}. {_EXPECTED}")
    for name, remedy in _REFUSED.items():
        if _is_set(item.get(name)):
            raise DataError(f"{place} has {name!r}, which is not read: {remedy}")
    fields = {name: _plain(item[name]) for name in _PASSED_ON if _is_set(item.get(name))}
    if content is None and "tool_calls" in fields:
        content = ""
    if isinstance(content, list):
        content = _joined(content, place)
    if not isinstance(content, str):
        raise DataError(f"{place}: the content of {role!r} is not text but {content!r:.80}. {_EXPECTED}")
    return Turn(role, content, fields, _weight(item, place))


def _joined(parts: list[Any], place: str) -> str:
    """Return the text of a content in parts; raise DataError for a part that is not text."""
    texts = []
    for part in parts:
        kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else None
        if kind not in ("text", "input_text", "output_text", "str") or not isinstance(text, str):
            raise DataError(
                f"{place} has a part of type {kind!r}, but gradgate trains on text. Remove the part, or the row if "
                f"it makes no sense without it"
            )
        texts.append(text)
    return "".join(texts)


def _weight(item: Mapping[str, Any], place: str) -> int | None:
    for name in _WEIGHTS:
        value = item.get(name)
        if value is None:
            continue
        if _word(value) in (*_TRUE, *_FALSE):
            return int(_word(value) in _TRUE)
        raise DataError(f"{place} has {name} {value!r:.20}; expected 0 or 1. Correct it")
    return None


def _plain(value: Any) -> Any:
    """Return a value without the empty fields that Arrow gives to objects in lists."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if part is not None and part is not MISSING}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


_EXPECTED = (
    'Expected a list such as [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]; correct '
    "the row or remove it"
)
_EXPECTED_TOOLS = 'Expected a list such as [{"type": "function", "function": {"name": "..."}}]; correct the row'
