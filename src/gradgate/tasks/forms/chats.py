"""Forms of conversations, prompts and instructions, which become tasks of generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.forms.base import (
    Form,
    are_lists,
    are_texts,
    cells_of,
    first_cells,
    found_name,
    is_there,
    mostly_different,
    with_columns,
)
from gradgate.tasks.forms.choices import has_choices
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.readers.turns import ASSISTANT, MARKS, SYSTEM, USER, check_row_fields
from gradgate.tasks.written import parsed

MESSAGES = "messages|conversations|conversation|dialog|dialogue|turns"
_INPUT, _OUTPUT = "input|context", "output|response|completion|answer"
_PROMPT, _RESPONSE = "prompt", "response"
_SYSTEM, _HISTORY, _TOOLS = "system|system_prompt", "history", "tools"
_MARKS = "|".join(MARKS)
_TURN = ({"role", "content"}, {"from", "value"})


def _are_turns(cells: list[Any]) -> bool:
    turns = [turn for cell in cells for turn in (cell if isinstance(cell, list) else [])]
    named = all(isinstance(turn, dict) and any(names & set(turn) for names in _TURN) for turn in turns)
    return bool(turns) and are_lists(cells) and named


def _has_turns(table: SourceTable) -> bool:
    return _are_turns(first_cells(table, MESSAGES))


def _read_messages(table: SourceTable) -> SourceTable:
    """Put a ``system`` column before the turns, and rename their column."""
    check_row_fields(table)  # before rows are divided into splits
    turns = [parsed(cell) for cell in cells_of(table, MESSAGES)]
    for row, system in enumerate(cells_of(table, _SYSTEM)):
        if isinstance(system, str) and system.strip() and isinstance(turns[row], list):
            turns[row] = _led(table, row, system, turns[row])
    return with_columns(table, {_PROMPT: turns}, [MESSAGES, _SYSTEM])


def _led(table: SourceTable, row: int, system: str, turns: list[Any]) -> list[Any]:
    """Return turns with a system turn first; raise DataError if they begin with another one."""
    first = turns[0] if turns and isinstance(turns[0], dict) else {}
    if SYSTEM not in (first.get("role"), first.get("from")):
        return [{"role": SYSTEM, "content": system}, *turns]
    if (first.get("content") or first.get("value")) != system:
        raise DataError(
            f"{table.place(row)} has {found_name(table, _SYSTEM)!r} and messages that begin with another system turn. "
            f"Remove one of them"
        )
    return turns


def _has_prompts_as_turns(table: SourceTable) -> bool:
    return _are_turns(first_cells(table, _PROMPT))


def _read_turns_in_pairs(table: SourceTable) -> SourceTable:
    """Join the turns of prompts and completions; a completion may be text."""
    pairs = zip(cells_of(table, _PROMPT), cells_of(table, "completion|response"), strict=True)
    joined = [_joined(parsed(prompt), parsed(completion)) for prompt, completion in pairs]
    return with_columns(table, {_PROMPT: joined}, [_PROMPT, "completion|response"])


def _joined(prompt: Any, completion: Any) -> Any:
    if not isinstance(prompt, list) or not is_there(completion):
        return prompt
    return [*prompt, *(completion if isinstance(completion, list) else [{"role": ASSISTANT, "content": completion}])]


def _read_instructions(table: SourceTable) -> SourceTable:
    """Make turns of an instruction with its input, of earlier turns, and of a response."""
    return _as_turns(table, ("instruction", _INPUT), _OUTPUT)


def _as_turns(table: SourceTable, asked: tuple[str, ...], answer: str) -> SourceTable:
    """Make turns of the columns of a question, of what comes before it, and of the answer."""
    columns = (*asked, answer, _SYSTEM, _HISTORY)
    _check_texts(table, (*asked, answer))
    told = zip(*(cells_of(table, name) for name in asked), strict=True)
    others = zip(told, *(cells_of(table, name) for name in columns[len(asked) :]), strict=True)
    turns = [_turns(table, row, *cells) for row, cells in enumerate(others)]
    return with_columns(table, {_PROMPT: turns}, columns)


def _check_texts(table: SourceTable, names: Sequence[str]) -> None:
    for name in names:
        for row, cell in enumerate(cells_of(table, name)):
            if is_there(cell) and not isinstance(cell, str):
                raise DataError(
                    f"{table.place(row)}: {found_name(table, name)!r} is not text but {type(cell).__name__} "
                    f"({cell!r:.60}). Correct it"
                )


def _turns(
    table: SourceTable, row: int, told: Sequence[Any], response: Any, system: Any, history: Any
) -> list[dict[str, Any]]:
    asked = "\n\n".join(part for part in told if isinstance(part, str) and part.strip())
    turns = [{"role": SYSTEM, "content": system}] if isinstance(system, str) and system.strip() else []
    past = parsed(history)
    for pair in past if isinstance(past, list) else []:
        if not isinstance(pair, list) or len(pair) != 2:
            raise DataError(
                f"{table.place(row)}: 'history' has {pair!r:.60}; expected pairs of an instruction and its response"
            )
        turns += [{"role": USER, "content": pair[0]}, {"role": ASSISTANT, "content": pair[1]}]
    turns.append({"role": USER, "content": asked})
    return [*turns, {"role": ASSISTANT, "content": response}] if is_there(response) else turns


def _has_context(table: SourceTable) -> bool:
    """Return True if a row has a system prompt, earlier turns or tools, which only turns can hold."""
    lists = any(isinstance(parsed(cell), list) for name in (_HISTORY, _TOOLS) for cell in cells_of(table, name))
    return lists or any(isinstance(cell, str) and cell.strip() for cell in cells_of(table, _SYSTEM))


def _in_context(question: str, answer: str) -> Any:
    """Return a reader of two columns of texts, which become turns if there is something before them."""
    read_texts = _texts(question, answer)

    def read(table: SourceTable) -> SourceTable:
        return _as_turns(table, (question,), answer) if _has_context(table) else read_texts(table)

    return read


def _texts(question: str, answer: str) -> Any:
    def read(table: SourceTable) -> SourceTable:
        columns = {_PROMPT: cells_of(table, question)}
        if found_name(table, answer):
            columns[_RESPONSE] = cells_of(table, answer)
        return with_columns(table, columns, [question, answer])

    return read


def _long_texts(question: str, answer: str) -> Any:
    """Return a test for two columns of texts, of which neither holds class labels."""

    def when(table: SourceTable) -> bool:
        asked, answered = first_cells(table, question), first_cells(table, answer)
        return are_texts(asked) and (not found_name(table, answer) or mostly_different(answered))

    return when


def _two_texts(name: str, question: str, answer: str, meaning: str, example: dict[str, Any]) -> Form:
    return Form(
        name, "generation", (question,), (answer,), meaning, example, _texts(question, answer),
        _long_texts(question, answer), weak=True,
    )  # fmt: skip


def _has_answer_texts(table: SourceTable) -> bool:
    passage = found_name(table, "context|passage")
    return passage is None and not has_choices(table) and _long_texts(_ASKED, _ANSWERED)(table)


_ASKED, _ANSWERED = "question|query|problem", "answer|solution|response|completion"
_DOCUMENT, _SUMMARY = "document|article|dialogue|text", "summary|highlights"

CHATS = (
    Form(
        "messages", "generation", (MESSAGES,), (),
        "turns with `role` and `content`, or ShareGPT's `from` and `value`; the last one of the assistant is the "
        "response. `system`, `tools`, `tool_calls`, `reasoning_content`, text parts and weights of turns count",
        {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]},
        _read_messages, _has_turns, optional=(_SYSTEM, _TOOLS, _MARKS),
    ),
    Form(
        "messages in pairs", "generation", ("prompt",), ("completion|response",),
        "prompt and completion as turns, as TRL has them",
        {"prompt": [{"role": "user", "content": "2+2?"}], "completion": [{"role": "assistant", "content": "4"}]},
        _read_turns_in_pairs, _has_prompts_as_turns, optional=(_TOOLS, _MARKS),
    ),
    Form(
        "preferences", None, (), ("chosen", "rejected"),
        "pairs of a preferred and a rejected response are for TRL's DPOTrainer, to which gradgate can be attached. "
        "To learn only the preferred responses, pass kind='generation', text='prompt' and label='chosen'",
        {"prompt": "2+2?", "chosen": "4", "rejected": "5"},
    ),
    Form(
        "prompts", "generation", (_PROMPT,), ("response|completion",),
        "a prompt and its response; with `system`, `history` or `tools`, as turns",
        {"prompt": "2+2?", "response": "4"}, _in_context(_PROMPT, "response|completion"),
        optional=(_SYSTEM, _HISTORY, _TOOLS, _MARKS),
    ),
    Form(
        "alpaca", "generation", ("instruction",), (_OUTPUT,),
        "an instruction, its `input` or Dolly's `context` after a blank line, and the response, as turns; `system` "
        "and `history` come before",
        {"instruction": "Add.", "input": "2 and 2", "output": "4"}, _read_instructions,
        optional=(_INPUT, _SYSTEM, _HISTORY, _TOOLS, _MARKS),
    ),
    _two_texts("summaries", _DOCUMENT, _SUMMARY, "a text and its summary",
               {"document": "A long report ...", "summary": "In short ..."}),
    _two_texts("inputs", "input|source", "output|target", "a text and what is made of it",
               {"input": "2+2?", "output": "4"}),
    Form(
        "questions", "generation", (_ASKED,), (_ANSWERED,),
        "a question and its answer in words; with `system`, `history` or `tools`, as turns",
        {"question": "What is 2+2?", "answer": "2+2 is 4."}, _in_context(_ASKED, _ANSWERED), _has_answer_texts,
        optional=(_SYSTEM, _HISTORY, _TOOLS), weak=True,
    ),
)  # fmt: skip
