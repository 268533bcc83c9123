"""Drop what a configuration file says where a flag says it in other words, as flags win over the file."""

from __future__ import annotations

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
    if _is_of_file(context, "method") and isinstance(context.params["method"], str):
        context.params["method"] = _arm_without(context.params["method"], context)


def _arm_without(text: str, context: Any) -> str:
    """Return the file's arm without the adapter, and the settings of its own, for which there is a typed flag."""
    typed = {name for name in context.params if _is_typed(context, name)}
    if not typed:
        return text
    from gradgate.settings.arms.arm import Arm, read_arm

    try:
        arm = read_arm(text)
    except (UsageError, OSError):
        return text  # the settings say what is wrong
    adapter = None if "adapter" in typed else arm.adapter
    if adapter is not None and "lr" in typed:
        adapter = adapter.without_rate()
    own = {name: value for name, value in arm.overrides.items() if name not in typed}
    changed = Arm(arm.method, adapter, own)
    return text if changed == arm else changed.name


def _is_typed(context: Any, name: str) -> bool:
    return _source(context, name) == "COMMANDLINE"


def _is_of_file(context: Any, name: str) -> bool:
    return _source(context, name) == "DEFAULT_MAP"


def _source(context: Any, name: str) -> str:
    return getattr(context.get_parameter_source(name), "name", "")
