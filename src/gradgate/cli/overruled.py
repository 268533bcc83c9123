"""Drop what a configuration file says where a flag says it in other words, as flags win over the file."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from gradgate.errors import UsageError

_WITH_BOTH_LENGTHS = ("plan", "memory")
_ONE_OF = (
    ("steps", "epochs"),
    ("tapt_steps", "tapt_epochs"),
    ("dev_size", "dev_file"),
    ("budget", "budget_steps", "budget_time"),
)


def drop_overruled(context: Any) -> None:
    """Drop the file's form of a length or a budget that a flag gives in another, and what flags change of its arm."""
    if context.command.name not in _WITH_BOTH_LENGTHS:
        for names in _ONE_OF:
            if any(_is_typed(context, name) for name in names):
                for name in names:
                    if _is_of_file(context, name):
                        context.params[name] = None
    typed = _typed(context)
    for name, without in (("method", _arm_without), ("adapter", _adapter_without)):
        text = context.params.get(name)
        if typed and _is_of_file(context, name) and isinstance(text, str):
            with suppress(UsageError, OSError):  # the settings say what is wrong
                context.params[name] = without(text, typed)


def _typed(context: Any) -> set[str]:
    """Return the names of the typed flags. One of a pair such as ``steps`` and ``epochs`` stands for both."""
    typed = {name for name in context.params if _is_typed(context, name)}
    return typed.union(*(names for names in _ONE_OF if typed.intersection(names)))


def _arm_without(text: str, typed: Collection[str]) -> str:
    """Return an arm without the adapter, and without the settings of its own, that are typed."""
    from gradgate.settings.arms.arm import Arm, read_arm

    arm = read_arm(text)
    adapter = None if arm.adapter is None or "adapter" in typed else arm.adapter.without(*typed)
    own = {name: value for name, value in arm.overrides.items() if name not in typed}
    changed = Arm(arm.method, adapter, own)
    return text if changed == arm else changed.name


def _adapter_without(text: str, typed: Collection[str]) -> str:
    """Return an adapter without the settings of its own that are typed."""
    from gradgate.settings.arms.adapter import read_adapter

    adapter = read_adapter(text)
    return text if adapter is None else str(adapter.without(*typed))


def _is_typed(context: Any, name: str) -> bool:
    return _source(context, name) == "COMMANDLINE"


def _is_of_file(context: Any, name: str) -> bool:
    return _source(context, name) == "DEFAULT_MAP"


def _source(context: Any, name: str) -> str:
    return getattr(context.get_parameter_source(name), "name", "")
