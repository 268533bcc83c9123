"""The options of methods in words: what the ``Args:`` of a class and of those it derives from say."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from gradgate import methods
from gradgate.methods import MethodInfo

_SECTION = re.compile(r"^(Args|Raises|Source|Returns|Attributes):\n((?:(?:    .*)?\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_AS_FOR = re.compile(r"as for :class:`(?:\w+\.)*(\w+)`")


@dataclass(frozen=True)
class Option:
    """One option of a method; ``text`` is reStructuredText in one line."""

    name: str
    default: str
    text: str


def body_of(cls: type) -> str:
    """The docstring of a class without its sections."""
    return _SECTION.sub("", f"{inspect.getdoc(cls)}\n").strip()


def options_of(info: MethodInfo) -> list[Option]:
    """Every option of a method, those that it alone has first."""
    texts = _texts(info.cls)
    own = _entries(info.cls)
    found = [
        Option(name, "required" if default is ... else _shown(default), texts.get(name, ""))
        for name, default in info.defaults.items()
    ]
    return sorted(found, key=lambda option: option.name not in own)


def _texts(cls: type) -> dict[str, str]:
    """Option to text, from the class that says most of it: its own words before those of its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("gradgate."):
            found |= _entries(base)
    for name, text in found.items():
        other = _AS_FOR.search(text)
        if other:
            found[name] = _texts(_class(other[1])).get(name, text)
    return found


def _entries(cls: type) -> dict[str, str]:
    doc = f"{inspect.cleandoc(cls.__dict__.get('__doc__') or '')}\n"
    sections = {match[1]: match[2] for match in _SECTION.finditer(doc)}
    return {
        name.strip(): " ".join(text.split())
        for names, text in _ENTRY.findall(sections.get("Args", ""))
        for name in names.split(",")
    }


def _class(name: str) -> type:
    return next(info.cls for info in methods() if info.cls.__name__ == name)


def _shown(value: Any) -> str:
    if value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
