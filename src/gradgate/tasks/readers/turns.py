"""Read conversations: ``messages`` as lists of turns, and the columns of prompts and responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import Table, renamed
from gradgate.tasks.spec import TaskSpec

MESSAGES = "messages"
ASSISTANT, USER = "assistant", "user"
_OTHER_NAMES = {"text": (MESSAGES,), "label": ("completion",)}
"""Common names of the columns of prompt and response, other than the task's; the second is TRL's."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: the speaker: ``user``, ``assistant``, ``system`` or another role of the chat template.
        content: the text.
    """

    role: str
    content: str


def with_usual_names(spec: TaskSpec, table: Table) -> Table:
    """Rename ``messages`` in a generation task's table to the prompt's column, and ``completion`` to the response's.

    A column that the task names itself stays.
    """
    if spec.kind != "generation":
        return table
    wanted = {"text": spec.text_columns[0], "label": spec.label_column}
    names = {
        other: wanted[part]
        for part, others in _OTHER_NAMES.items()
        for other in others
        if wanted[part] not in table.columns and other in table.columns
    }
    return renamed(table, names)


def read_turns(cell: Any, place: str) -> list[Turn]:
    """Read the turns of a cell of ``messages``: a list of objects with ``role`` and ``content``, or its JSON text.

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
    return [_turn(item, f"{place}, message {number}") for number, item in enumerate(cell, 1)]


def _turn(item: Any, place: str) -> Turn:
    role, content = (item.get("role"), item.get("content")) if isinstance(item, Mapping) else (None, None)
    if not isinstance(role, str) or not role.strip():
        raise DataError(f"{place} has no role: {item!r:.80}. {_EXPECTED}")
    if not isinstance(content, str):
        raise DataError(f"{place}: the content of {role!r} is not text but {content!r:.80}. {_EXPECTED}")
    return Turn(role, content)


_EXPECTED = (
    'Expected a list such as [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]; correct '
    "the row or remove it"
)
