"""Turn a ``peft.PeftConfig`` into the text that describes the same adapter to gradgate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gradgate.adapters.peft.kind import ANY, NAMED, PeftKind
from gradgate.adapters.peft.options import OF_RUN, read_config
from gradgate.errors import UsageError

_OF_THE_GRAMMAR = set(",+= ")
_LISTS = (list, tuple, set, frozenset)


def text_of(config: Any) -> str:
    """Return the text of an adapter such as ``lora:r=16`` for a ``peft.LoraConfig(r=16)``.

    What names the model and the task is left out: the run decides that.

    Raises:
        UsageError: for a type of adapter that a run cannot train, or an option that no text can express.
    """
    if getattr(config, "modules_to_save", None):
        raise UsageError(
            f"{type(config).__name__} has modules_to_save={config.modules_to_save!r}. Apart from the adapter, a run "
            f"trains only the head of its task. Leave modules_to_save out."
        )
    name, fixed = _name_of(config)
    default = type(config)()
    options = {
        option: _text(value)
        for option, value in _asked(config).items()
        if option not in fixed and not _same(value, getattr(default, option))
    }
    separator = "," if name.startswith(f"{ANY}:") else ":"
    listed = ",".join(f"{option}={text}" for option, text in options.items())
    text = f"{name}{separator}{listed}" if listed else name
    kind = PeftKind(text, config.peft_type.value, tuple(sorted(options.items())), fixed)
    wrong = [option for option, value in options.items() if not value or _OF_THE_GRAMMAR & set(value)]
    read = None if wrong else read_config(kind)
    wrong += [option for option, value in _asked(config).items() if read and not _same(getattr(read, option), value)]
    if wrong:
        raise UsageError(
            f"{type(config).__name__} has {wrong[0]}={getattr(config, wrong[0])!r}, which an adapter's text cannot "
            f"express. Expected numbers, words, or lists and mappings of these. Leave {wrong[0]} out."
        )
    return text


def _name_of(config: Any) -> tuple[str, Mapping[str, bool]]:
    """Return gradgate's name of a configuration's type, and the options that the name stands for."""
    kind = config.peft_type.value
    fitting = {
        name: fixed
        for name, (known, fixed) in NAMED.items()
        if known == kind and all(getattr(config, option) == value for option, value in fixed.items())
    }
    name = max(fitting, key=lambda each: len(fitting[each]), default=f"{ANY}:{kind.lower()}")
    return name, fitting.get(name, {})


def _asked(config: Any) -> dict[str, Any]:
    return {each.name: getattr(config, each.name) for each in fields(config) if each.name not in OF_RUN}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "/".join(f"{name}:{_text(each)}" for name, each in value.items())
    if isinstance(value, _LISTS):
        return "/".join(sorted(map(str, value)) if isinstance(value, set | frozenset) else map(_text, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values of an option mean the same. PEFT stores some lists as sets."""
    if isinstance(one, _LISTS) and isinstance(other, _LISTS):
        return sorted(map(str, one)) == sorted(map(str, other))
    return bool(one == other)
