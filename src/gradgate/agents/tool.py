"""Define a tool: its arguments, as settings that are checked, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import UsageError
from gradgate.places import typed_path
from gradgate.settings.base import CheckedSettings, checked_settings


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool.

    Attributes:
        text: a few sentences.
        record: the same with all numbers, as plain values.
    """

    text: str
    record: dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool of the server.

    Attributes:
        name: of the tool.
        description: for the agent.
        arguments: the class of its arguments.
    """

    name: str
    description: str
    arguments: type[CheckedSettings]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        schema: dict[str, Any] = self.arguments.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return schema

    def checked(self, arguments: Mapping[str, Any]) -> Any:
        """Return the arguments as settings; raise UsageError naming every unknown name and every wrong value."""
        return checked_settings(self.arguments, arguments)


@dataclass(frozen=True)
class ReadingTool(Tool):
    """A tool that reads and writes nothing.

    Attributes:
        answer: answers checked arguments.
    """

    answer: Callable[[Any], ToolAnswer]

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Check the arguments, and answer.

        Raises:
            GradgateError: with what was wrong, what is expected and what to do.
        """
        return self.answer(self.checked(arguments))


_MOST_LINES = 20


def shortened(sentences: Sequence[str]) -> list[str]:
    """Return the first sentences of an answer, and how many more its numbers stand for."""
    more = len(sentences) - _MOST_LINES
    return [*sentences[:_MOST_LINES], *([f"{more} more are in the structured content."] if more > 0 else [])]


def existing(name: str, place: str) -> Path:
    """Return the path of an argument, with the home folder in place of ``~``.

    Raises:
        UsageError: if no file or folder is there.
    """
    path = typed_path(place)
    if not (path.is_file() or path.is_dir()):
        what = "is not a file or folder" if path.exists() else "does not exist"
        raise UsageError(
            f"{name}={place!r} {what}. Expected the path of one; a relative path starts at {typed_path('.').resolve()}."
        )
    return path
