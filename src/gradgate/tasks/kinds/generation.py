"""Generate a response to a prompt, or the next turn of a conversation, as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradgate.errors import DataError
from gradgate.tasks.kinds import conversations, sequence
from gradgate.tasks.kinds.base import PLACE, CellType, Examples, Scored, TaskData, make_rows, tokenize_rows
from gradgate.tasks.metrics.texts import score_texts
from gradgate.tasks.readers.rows import SourceTable, as_text, check_characters
from gradgate.tasks.readers.turns import ASSISTANT, USER, Turn, check_row_fields, read_turns, tools_of
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import KIND_INFO, GenerationOptions

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

NO_TEST = "no test split with responses: only dev is scored"
"""The note of a task that is scored only on dev."""
ROLES, CONTENTS, MESSAGES = "roles", "contents", "messages"
FIELDS = "fields"
"""The column with the tools of a row and the further fields and weights of its turns, as JSON; absent without any."""


class AutoModelForGeneration:
    """The class of transformers that generates text with a configuration: a decoder, or an encoder and a decoder."""

    @staticmethod
    def from_pretrained(name: Any, *, config: Any, **options: Any) -> Any:
        """Load the model with ``AutoModelForSeq2SeqLM`` or ``AutoModelForCausalLM``."""
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        factory = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        return factory.from_pretrained(name, config=config, **options)


@dataclass(frozen=True)
class Generation:
    """Responses as text. A row is a conversation; its last turn is the response that is generated and scored.

    Args:
        options: of the task.
        encoder_decoder: whether the model reads prompts in an encoder, as T5 and BART do, and not in the decoder that
            writes the response.
    """

    info = KIND_INFO["generation"]
    options: GenerationOptions = field(default_factory=GenerationOptions)
    encoder_decoder: bool = False

    @property
    def auto_model(self) -> type[Any]:
        return AutoModelForGeneration

    def read(self, spec: TaskSpec, tables: dict[str, SourceTable]) -> Examples:
        """Read rows as conversations.

        Raises:
            DataError: a row without a prompt or a response, a message without a role, or a cell that is not text.
        """
        if spec.label_map is not None:
            raise DataError(
                f"{spec.name}: label_map names classes, but the kind is {self.info.name}; remove one of them"
            )
        splits, notes = {}, []
        for split, table in tables.items():
            if split not in ("train", "dev") and _unanswered(spec, table):
                notes.append(f"{split} has no responses and is not scored ({table.source})")
            else:
                splits[split] = _rows(spec, table)
                notes += _joint(split, splits[split], self.options)
        if not set(splits) - {"train", "dev"}:
            notes.append(NO_TEST)
        return Examples(splits, None, tuple(notes))

    def num_outputs(self, data: TaskData) -> int:
        """Return None: the model's output layer over its vocabulary stays."""
        return 0

    def config_overrides(self, data: TaskData) -> dict[str, Any]:
        return {}

    def encode(self, dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> Dataset:
        """Encode ``input_ids`` and ``labels``, cut to ``max_length`` tokens; ``prompt_ids``, ``cut`` and ``gold``.

        Labels that the loss does not count are -100. ``prompt_ids`` are the tokens that the response is generated from,
        ``cut`` is the number of tokens cut off, and ``gold`` is the text that generated ones are compared with.

        Raises:
            DataError: a row on which the tokenizer's chat template fails.
        """
        rendering = conversations.Rendering(tokenizer, self.options)
        encode = rendering.pair if self.encoder_decoder else rendering.sequence
        limit = max_length if max_length is not None else tokenizer.model_max_length

        def features(row: dict[str, Any]) -> dict[str, Any]:
            conversation = conversation_of(row)
            return {**encode(conversation, limit), "gold": rendering.response(conversation)}

        return tokenize_rows(dataset, features)

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
        """Return a collator that pads inputs and labels of each batch to its longest row."""
        from transformers import DataCollatorForSeq2Seq

        sequence.check_padding(tokenizer)
        return DataCollatorForSeq2Seq(tokenizer)  # type: ignore[no-any-return]

    def score(self, rows: Dataset, features: Dataset, outputs: Any, data: TaskData, split: str) -> Scored:
        """Compute every metric of generated texts, one text in ``outputs`` per row."""
        predicted = list(outputs)
        gold = features["gold"][:]
        if len(predicted) != len(gold):
            raise DataError(f"{len(predicted)} texts were generated for {len(gold)} rows; expected one for each")
        predictions = [
            {"index": index, "prompt": prompt_of(row), "gold": true, "predicted": mine}
            for index, (row, true, mine) in enumerate(zip(rows, gold, predicted, strict=True))
        ]
        return Scored(score_texts(predicted, gold), predictions)


def turns_of(row: dict[str, Any]) -> list[Turn]:
    """Return the turns of a row, its response last."""
    further = json.loads(row[FIELDS])["turns"] if row.get(FIELDS) else [({}, None)] * len(row[ROLES])
    return [
        Turn(role, content, fields, weight)
        for role, content, (fields, weight) in zip(row[ROLES], row[CONTENTS], further, strict=True)
    ]


def conversation_of(row: dict[str, Any]) -> conversations.Conversation:
    """Return the conversation of a row, as it is encoded."""
    tools = json.loads(row[FIELDS])["tools"] if row.get(FIELDS) else None
    return conversations.Conversation(turns_of(row), row[MESSAGES], row[PLACE], tools)


def prompt_of(row: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Return the prompt or the messages before a row's response."""
    turns = turns_of(row)[:-1]
    return [turn.message() for turn in turns] if row[MESSAGES] else turns[0].content


def _unanswered(spec: TaskSpec, table: SourceTable) -> bool:
    """Return True if no row has a response, or messages that could end with one."""
    if any(not isinstance(cell, str) for cell in table.columns.get(spec.text_columns[0], ())):
        return False
    return not any(map(as_text, table.columns.get(spec.label_column, ())))


def _rows(spec: TaskSpec, table: SourceTable) -> Dataset:
    columns: dict[str, list[Any]] = {name: [] for name in (ROLES, CONTENTS, MESSAGES, PLACE, FIELDS)}
    check_row_fields(table, spec.label_column)
    prompts = table.column(spec.text_columns[0], "text=")
    as_messages = _holds_messages(prompts)
    texts = [] if as_messages else _prompts(spec, table)
    responses = table.columns.get(spec.label_column)
    if responses is None and not as_messages:
        responses = table.column(spec.label_column, "label=")
    for row, prompt in enumerate(prompts):
        place = table.place(row)
        turns = read_turns(prompt, place) if as_messages else [Turn(USER, texts[row])]
        if not as_messages or turns[-1].role != ASSISTANT:
            turns.append(Turn(ASSISTANT, _response(None if responses is None else responses[row], place)))
        _check(turns, place)
        tools = tools_of(table, row)
        if tools is not None and not as_messages:
            raise DataError(f"{place} has 'tools', which only messages can use. Write its prompt as a list of messages")
        further = _further(turns, tools)
        cells = ([turn.role for turn in turns], [turn.content for turn in turns], as_messages, place, further)
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    types: dict[str, CellType] = {ROLES: ["string"], CONTENTS: ["string"], MESSAGES: "bool", PLACE: "string"}
    if any(columns[FIELDS]):
        return make_rows(columns, {**types, FIELDS: "string"})
    del columns[FIELDS]
    return make_rows(columns, types)


def _further(turns: list[Turn], tools: list[Any] | None) -> str:
    """Return the tools, fields and weights of a conversation as JSON; an empty text without any."""
    if tools is None and not any(turn.fields or turn.weight is not None for turn in turns):
        return ""
    return json.dumps({"tools": tools, "turns": [(dict(turn.fields), turn.weight) for turn in turns]})


def _joint(split: str, rows: Dataset, options: GenerationOptions) -> list[str]:
    """Return notes on rows in which prompt and response run together without a space."""
    if split != "train" or rows[0][MESSAGES] or options.template == "chat" or options.separator is not None:
        return []
    prompt, response = rows[0][CONTENTS]
    if prompt[-1:].isspace() or response[:1].isspace():
        return []
    return [
        f"prompts are joined to responses without a space, as TRL does for a decoder: '...{prompt[-12:]}{response[:12]}"
        f'...\'. `separator: "\\n"` in the task puts a line break between them'
    ]


def _holds_messages(cells: Sequence[Any]) -> bool:
    """Return True if the cells are lists of turns, or their JSON text, as in a csv file."""
    first = cells[0]
    return not isinstance(first, str) or first.lstrip().startswith(('[{"', "[ {"))


def _prompts(spec: TaskSpec, table: SourceTable) -> list[str]:
    """Return the prompts; of several columns, the parts that are not blank, joined with line breaks."""
    parameters = ("text=", "text_pair=", "text_pair=")
    columns = [table.column(name, parameter) for name, parameter in zip(spec.text_columns, parameters, strict=False)]
    for name, cells in zip(spec.text_columns, columns, strict=True):
        for row, cell in enumerate(cells):
            sequence.is_blank(cell, table, row, name)
    if len(columns) == 1:
        return list(columns[0])
    return ["\n".join(part for part in parts if part.strip()) for parts in zip(*columns, strict=True)]


def _response(cell: Any, place: str) -> str:
    if not isinstance(cell, str):
        found = "no response" if as_text(cell) == "" else f"a response that is not text but {cell!r:.80}"
        raise DataError(
            f"{place} has {found}; expected text, or messages that end with one by the role {ASSISTANT!r}. Add it, "
            f"remove "
            f"the row, or name the column with label="
        )
    return cell


def _check(turns: list[Turn], place: str) -> None:
    """Refuse a row with nothing to read, or nothing to learn."""
    if not turns[-1].content.strip() and not turns[-1].fields:
        raise DataError(f"{place}: the response is blank; expected text. Add it or remove the row")
    if not any(turn.content.strip() for turn in turns[:-1]):
        raise DataError(f"{place}: the response has no prompt before it. Add one or remove the row")
    for number, turn in enumerate(turns, 1):
        name = "the response" if number == len(turns) else f"message {number}"
        for text in (turn.role, turn.content, json.dumps(dict(turn.fields), ensure_ascii=False)):
            check_characters(text, name, lambda: place)
    if any("\0" in turn.content for turn in turns):
        raise DataError(f"{place} contains a null character; remove it")
