"""What the shell completes: names of methods, tasks, models and presets. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable

from gradgate import sample
from gradgate.methods import methods
from gradgate.tasks.find import task_names


def method_names(incomplete: str) -> list[str]:
    """The methods that begin so, and the options of one that is complete up to its colon."""
    name, colon, options = incomplete.partition(":")
    if not colon:
        return [info.name for info in methods() if info.name.startswith(incomplete)]
    before, comma, last = options.rpartition(",")
    known = next((info.defaults for info in methods() if info.name == name), {})
    return [f"{name}:{before}{comma}{option}=" for option in known if option.startswith(last)]


def tasks_named(incomplete: str) -> list[str]:
    """The named tasks that begin so; files are the shell's own."""
    return [name for name in task_names() if name.startswith(incomplete)]


def models_named(incomplete: str) -> list[str]:
    """The embedded models that begin so."""
    return [name for name in sample.MODELS if name.startswith(incomplete)]


def presets_named(incomplete: str) -> list[str]:
    """The papers' presets that begin so."""
    from gradgate.papers.preset import presets  # reads their files

    return [name for name in presets() if name.startswith(incomplete)]


OF_SETTINGS: dict[str, Callable[[str], list[str]]] = {
    "method": method_names,
    "task": tasks_named,
    "model": models_named,
}
"""A setting of a run -> what completes it."""
