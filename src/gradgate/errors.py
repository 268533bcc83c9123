"""Define gradgate's errors. Each message names what was wrong, what was expected and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

_LONG_WORD = re.compile(r"\S{1000,}?(?=[.,;:)]*(?:\s|$))")
_SHOWN = 100

# Type of a pydantic error -> what was expected; other types keep pydantic's own words.
_EXPECTED = {
    "missing": "missing",
    "extra_forbidden": "unknown entry",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected text",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected a mapping",
}


class GradgateError(Exception):
    """Base of every error that a user can correct. The command line prints it and exits with ``exit_code``.

    Attributes:
        reported_by_main: True if another of the processes that train together prints it.
    """

    exit_code = 1
    reported_by_main = False

    def __str__(self) -> str:
        """Return the message, in which a word of a thousand characters or more is shortened."""
        return _LONG_WORD.sub(lambda word: f"{word[0][:_SHOWN]}... ({len(word[0]):,} characters)", super().__str__())


class GradgateWarning(UserWarning):
    """Category of every warning of gradgate. The command line prints its text alone, without a place in the code."""


class UsageError(GradgateError, ValueError):
    """A name, flag or parameter that is wrong regardless of the data."""

    exit_code = 2


class SpecError(UsageError):
    """A text of a method or an adapter that cannot be; the options that it names are not parameters of a call."""


class MethodError(SpecError):
    """An unknown method, or a parameter of one that is out of range."""


class SelectorError(UsageError):
    """A selector that is not valid, or that selects nothing in the model."""


class LayerMapError(GradgateError, ValueError):
    """A model whose layers cannot be found, or a method that requests layers it does not have."""


class AttachError(GradgateError, ValueError):
    """A model, optimizer and method that do not fit together."""


class AuditError(GradgateError, RuntimeError):
    """A closed parameter moved, or an open one that had a gradient did not."""


class NonFiniteError(GradgateError, RuntimeError):
    """The loss or the gradients became infinite or not a number."""


class DataError(GradgateError, ValueError):
    """A data file or column that does not match the task's description."""


class AdapterError(GradgateError, ValueError):
    """An adapter that cannot be built, found, combined or trained on this model."""


class AdapterFileError(AdapterError):
    """Adapter files that are absent, damaged, unsafe, or written for another model."""


class DeltaError(GradgateError, ValueError):
    """A delta that cannot be created, is damaged, or belongs to another base model."""


class BusyError(GradgateError, RuntimeError):
    """A resource that a running forward pass or another user has."""


class RunError(GradgateError, RuntimeError):
    """A run folder, checkpoint or model that cannot be used."""


class FolderLockedError(RunError):
    """A run folder in which another process trains."""


class StoreError(GradgateError, RuntimeError):
    """A study's store that cannot be opened, read or written."""


def expectation(fault: Mapping[str, Any]) -> str:
    """Return what was expected in place of a value that pydantic refuses, such as ``expected a number``."""
    text = str(fault["msg"]).removeprefix("Value error, ")
    text = re.sub(r"^Input should be (?=greater|less)", "expected a number ", text)
    text = re.sub(r"^(?:List|Tuple) should have (at least \d+ items?) after validation.*", r"expected \1", text)
    return _EXPECTED.get(fault["type"], re.sub(r"^Input should be ", "expected ", text))


def fault_with_place(fault: Mapping[str, Any]) -> str:
    """Return where a record is wrong and how, such as ``steps: expected a whole number, got 'x'``."""
    place = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"{place} is missing"
    return f"{place}: " * bool(place) + f"{expectation(fault)}, got {fault['input']!r:.60}"


def nearest_of_quoted(word: object, message: str) -> str:
    """Call :func:`nearest` with the quoted names of a message, such as one of pydantic's."""
    return nearest(str(word), re.findall(r"'([^']+)'", message))


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"``, or an empty string if no choice is near."""
    near = get_close_matches(word, list(dict.fromkeys(choices)), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""


def some_of(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return names in one line, as ``a, b and 3 more`` if there are more than ``most``."""
    shown = between.join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(number: int, noun: str) -> str:
    """Format as ``1 run``, ``2 runs``, ``2 studies`` or ``2 batches``."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def listed(names: Iterable[str]) -> str:
    """Join as ``a``, ``a and b`` or ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
