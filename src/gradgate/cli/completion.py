"""What the shell completes: names of methods, tasks, models and presets. Nothing here imports torch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO

from gradgate import sample
from gradgate.methods import methods
from gradgate.tasks.find import task_names


def method_names(incomplete: str) -> list[str]:
    """Return the methods with this beginning, or the options of a method that is complete up to its colon."""
    name, colon, options = incomplete.partition(":")
    if not colon:
        return [info.name for info in methods() if info.name.startswith(incomplete)]
    before, comma, last = options.rpartition(",")
    known = next((info.defaults for info in methods() if info.name == name), {})
    return [f"{name}:{before}{comma}{option}=" for option in known if option.startswith(last)]


def tasks_named(incomplete: str) -> list[str]:
    """Return the named tasks with this beginning; the shell completes files."""
    return [name for name in task_names() if name.startswith(incomplete)]


def models_named(incomplete: str) -> list[str]:
    """Return the embedded models with this beginning."""
    return [name for name in sample.MODELS if name.startswith(incomplete)]


def presets_named(incomplete: str) -> list[str]:
    """Return the papers' presets with this beginning."""
    from gradgate.papers.preset import presets  # reads their files

    return [name for name in presets() if name.startswith(incomplete)]


@contextmanager
def whole_words_in_bash() -> Iterator[None]:
    """Complete ``gradual:ev`` in bash, which breaks words at ``:`` and ``=`` and takes what follows the last one."""
    typed = os.environ.get("COMP_WORDS", "")
    if os.environ.get("_GRADGATE_COMPLETE") != "complete_bash" or re.search(r"['\"\\]", typed):
        yield
        return
    broken = typed.split("\n")
    place = int(os.environ.get("COMP_CWORD", "0"))
    words = _joined(broken[: place + 1])
    if len(words) == len(broken[: place + 1]):
        yield
        return
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    flag, _, value = words[-1].partition("=")
    value = value if flag.startswith("--") else words[-1]
    known = max(value.rfind(":"), value.rfind("=")) + 1
    said = StringIO()
    try:
        with redirect_stdout(said):
            yield
    finally:
        sys.stdout.writelines(f"{line[known:]}\n" for line in said.getvalue().splitlines())


def _joined(broken: list[str]) -> list[str]:
    """Return the words as they were typed."""
    words: list[str] = []
    for word in broken:
        begun = words[-1] if words else ""
        takes_more = ":" in begun or begun.startswith("--")
        if begun and (word == ":" or (takes_more and (word == "=" or begun.endswith((":", "="))))):
            words[-1] += word
        else:
            words.append(word)
    return words


OF_SETTINGS: dict[str, Callable[[str], list[str]]] = {
    "method": method_names,
    "task": tasks_named,
    "model": models_named,
}
"""A setting of a run -> what completes it."""
