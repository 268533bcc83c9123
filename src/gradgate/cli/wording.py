"""Turn the parameters that messages name into the flags of a command.

The library writes a parameter as Python has it: ``budget=2`` with its value, or ``budget=`` alone. What stands in
quotes is somebody's own text and stays, as do the options of methods and adapters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_QUOTED = r"(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)\"[^\"\n]*\"(?!\w)"
_NAME = r"(?<![\w:,.=/+-])(?P<name>[a-z][a-z0-9_]*)="
_PARAMETER = re.compile(rf"{_QUOTED}|{_NAME}(?P<value>True\b|False\b|)")
# Help has examples of options, such as lr=1e-3, and names parameters without a value.
_ALONE = re.compile(rf"{_QUOTED}|{_NAME}(?P<value>)(?=[\s.,;:)']|$)(?!\.\.)")
_VALUE = re.compile(r"[^\s.,;:)]|\.+[\w/\\]|\.{1,2}(?=: )")  # a path may begin with a dot, or be one


def in_flags(text: str, flags: Mapping[str, str]) -> str:
    """Return a message with each parameter as its flag: ``batch_size=0`` as ``--batch-size 0``.

    Args:
        text: of the library.
        flags: of a command, by the parameters that they stand for.
    """
    return _replaced(_PARAMETER, text, flags)


def help_in_flags(text: str, parameters: Iterable[str]) -> str:
    """Return a description with each of these parameters that stands alone as a flag: ``adapter=`` as ``--adapter``."""
    return _replaced(_ALONE, text, {name: flag(name) for name in parameters})


def flag(parameter: str) -> str:
    """Return the flag of a parameter."""
    return f"--{parameter.replace('_', '-')}"


def _replaced(pattern: re.Pattern[str], text: str, flags: Mapping[str, str]) -> str:
    def replace(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name is None or name not in flags:
            return found[0]
        if value == "False":
            return f"--no-{flags[name][2:]}"
        has_value = value == "" and _VALUE.match(text, found.end()) is not None
        return f"{flags[name]} " if has_value else flags[name]

    return pattern.sub(replace, text)
