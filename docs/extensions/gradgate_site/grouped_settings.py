"""Order the pages of functions with many settings: an example first, and the settings by subject."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import gradgate
from gradgate.settings.base import SECTIONS, CheckedSettings
from gradgate.settings.compare import CompareSettings, RecommendSettings
from gradgate.settings.run import RunConfig

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SETTINGS: dict[str, type[CheckedSettings]] = {
    "gradgate.train": RunConfig,
    "gradgate.compare": CompareSettings,
    "gradgate.recommend": RecommendSettings,
}
HEADINGS = {section: f"{section[0].upper()}{section[1:]} settings" for section in SECTIONS}
_PART = re.compile(r"^(Args|Returns|Raises|Example|Keyword Args|Source):$")
_BEFORE_NAPOLEON = 400


def short_signatures() -> dict[str, str]:
    """Return the signature of each of these functions without types, and with ``**settings`` for its settings."""
    return {name: _short(getattr(gradgate, name.rpartition(".")[2]), name) for name in SETTINGS}


def _short(function: Any, name: str) -> str:
    own = [each for each in inspect.signature(function).parameters.values() if _is_own(each, name)]
    shown = [each.replace(annotation=inspect.Parameter.empty) for each in own]
    rest = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
    return str(inspect.Signature([*shown, rest]))


def _is_own(parameter: inspect.Parameter, name: str) -> bool:
    """Return True for a parameter that ``Args`` of the docstring describes."""
    described = str(inspect.getdoc(getattr(gradgate, name.rpartition(".")[2]))).partition("\nArgs:")[2]
    own = described.partition("\nReturns:")[0]
    return parameter.kind is not parameter.VAR_KEYWORD and f"\n    {parameter.name}: " in own


def setup(app: Sphinx) -> dict[str, Any]:
    """Order docstrings before napoleon reads them."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", order, priority=_BEFORE_NAPOLEON)
    app.connect("builder-inited", forget_overloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def forget_overloads(app: Sphinx) -> None:
    """Let autodoc show one short signature of each function, and not that of every overload."""
    from sphinx.pycode import ModuleAnalyzer

    for name in SETTINGS:
        function = name.rpartition(".")[2]
        analyzer = ModuleAnalyzer.for_module(getattr(gradgate, function).__module__)
        analyzer.analyze()
        analyzer.overloads.pop(function, None)


def order(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Replace the lines of a docstring in place, if it is one of a function with settings."""
    if name in SETTINGS:
        lines[:] = ordered(lines, SETTINGS[name].sections())


def ordered(lines: list[str], subjects: dict[str, str]) -> list[str]:
    """Return the lines of a docstring with its example first and its settings by subject.

    Args:
        lines: with the sections of Google's style.
        subjects: name of a setting -> its subject.
    """
    parts: dict[str, list[str]] = {"": []}
    for line in lines:
        found = _PART.match(line)
        parts.setdefault(found[1] if found else list(parts)[-1], []).append(line)
    entries = parts.pop("Keyword Args", [])
    by_subject: dict[str, list[str]] = {section: [] for section in SECTIONS}
    subject = ""
    for line in entries[1:]:
        entry = re.match(r"    (\w+):", line)
        subject = subjects.get(entry[1], subject) if entry else subject
        if subject and line.strip():
            by_subject[subject].append(line)
    shown = [parts.pop(""), parts.pop("Example", []), *parts.values()]
    shown += [[f"{HEADINGS[section]}:", *own] for section, own in by_subject.items() if own]
    return [line for part in shown for line in [*part, ""]]
