"""Read the options of PEFT's adapters as PEFT's own configuration classes declare them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.tuners_utils import BaseTuner
from peft.utils import PeftType

from gradgate.adapters.config import checked
from gradgate.errors import AdapterError, UsageError, nearest
from gradgate.layers.patterns import NamePattern
from gradgate.plain_yaml import parse_yaml
from gradgate.specs import shown

# Options that the run decides: the model, its head, and whether it trains.
OF_RUN = (
    "auto_mapping", "base_model_name_or_path", "inference_mode", "modules_to_save", "peft_type", "peft_version",
    "revision", "runtime_config", "task_type",
)  # fmt: skip
_BESIDE = ("lr", "tapt_steps", "tapt_epochs", "tapt_batch", "pooler")
_PATTERNS = ("target_modules", "exclude_modules", "layers_pattern", "rank_pattern", "alpha_pattern")
_FROM_DATA = ("eva", "corda", "lora_ga", "loftq")
_PLAIN_NAME = re.compile(r"[\w.-]+")


class AskedKind(Hashable, Protocol):
    """A run's request to PEFT; see :class:`gradgate.adapters.peft.kind.PeftKind`, which imports this module late."""

    @property
    def text(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def options(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def fixed(self) -> Mapping[str, bool]: ...


def read_config(kind: AskedKind) -> Any:
    """Build PEFT's configuration of an adapter, without the model that it will be put into.

    Raises:
        UsageError: for a type that does not fit, an unknown option, or a value that PEFT refuses.
    """
    try:
        return _read(kind)
    except AdapterError as error:
        raise UsageError(str(error)) from None


@lru_cache(maxsize=256)
def _read(kind: AskedKind) -> Any:
    check_type(kind)
    made = config_class(kind.type)
    kinds = {name: hint for name, hint in get_type_hints(made).items() if name not in (*OF_RUN, *kind.fixed)}
    values: dict[str, Any] = dict(kind.fixed)
    for option, text in kind.options:
        if option == "modules_to_save":
            raise AdapterError(
                f"{kind.text!r}: apart from the adapter, a run trains only the head of its task, so "
                f"modules_to_save= would have no effect."
                " Leave it out."
            )
        if option not in kinds:
            near = nearest(option, kinds) or nearest(option, _BESIDE)
            if option == "rank" and "r" in kinds:  # the papers' name, which no spelling correction would find
                near = f"{near.removesuffix('?')} or 'r'?" if near else nearest("r", kinds)
            raise AdapterError(
                f"{kind.text!r} has no option {shown(option)}.{near} Expected one of PEFT's "
                f"{made.__name__}: {', '.join(sorted(kinds))}; or {', '.join(_BESIDE)}."
            )
        values[option] = checked(option, kinds[option], _structured(text, kinds[option]))
    _check_ranges(kind, values)
    check_patterns(values)
    try:
        return made(**values)
    except (ValueError, TypeError, KeyError, ImportError) as error:
        raise AdapterError(f"PEFT rejects {kind.text!r}: {str(error).rstrip('.')}. Correct the option.") from None


def check_patterns(values: Mapping[str, Any]) -> None:
    """Refuse regular expressions for names of modules that would take PEFT very long.

    Args:
        values: of a configuration, by option.

    Raises:
        AdapterError: naming the option.
    """
    for option, value in values.items():
        if option not in _PATTERNS:
            continue
        for text in [value] if isinstance(value, str) else value or ():
            try:
                NamePattern(str(text)).check_for_re()
            except ValueError as error:
                raise AdapterError(f"{option}={shown(str(text))} {error}. Name the modules themselves.") from None


def check_type(kind: AskedKind) -> None:
    """Refuse a type that PEFT does not have, or that acts outside of the model's layers.

    Raises:
        AdapterError: for such a type.
    """
    fitting = [known.value.lower() for known in PEFT_TYPE_TO_CONFIG_MAPPING if _works_in_layers(known)]
    known = PeftType.__members__.get(kind.type)
    if known not in PEFT_TYPE_TO_CONFIG_MAPPING:
        name = kind.type.lower()
        raise AdapterError(
            f"PEFT has no type {shown(name)}.{nearest(name, fitting)} Expected one of {', '.join(fitting)}."
        )
    if not _works_in_layers(known):
        raise AdapterError(
            f"{kind.text!r} does not only change modules of the model's layers (it adds tokens to the input, or "
            f"needs calls of its own in each step), so no layer has a part of it that a method could open. Expected "
            f"one of "
            f"{', '.join(fitting)}."
        )


def _works_in_layers(known: PeftType) -> bool:
    tuner = PEFT_TYPE_TO_TUNER_MAPPING.get(known)
    # A tuner with its own forward needs arguments that only PEFT's wrapper around the model gets.
    return issubclass(tuner or object, BaseTuner) and tuner.forward is BaseTuner.forward


def config_class(kind: str) -> Any:
    """Return PEFT's configuration class of a type."""
    return PEFT_TYPE_TO_CONFIG_MAPPING[PeftType(kind)]


def tuner_class(kind: PeftType) -> Any:
    """Return the class that puts adapters of a type into a model."""
    return PEFT_TYPE_TO_TUNER_MAPPING[kind]


def _check_ranges(kind: AskedKind, values: dict[str, Any]) -> None:
    """Check values that PEFT would check only with the model."""
    for option, value in values.items():
        if option == "r" and isinstance(value, int) and value < 1:
            raise AdapterError(f"{kind.text!r} cannot have r={value} (expected 1 or more).")
        if option == "init_lora_weights" and value in _FROM_DATA:
            raise AdapterError(
                f"{kind.text!r} cannot start with {option}={value}: PEFT computes that from passes over data, which a "
                f"run does not make. Expected true, gaussian, orthogonal, pissa or olora; use one of these."
            )
        if option.endswith("dropout") and isinstance(value, float) and not 0.0 <= value < 1.0:
            raise AdapterError(f"{kind.text!r} cannot have {option}={value} (expected a number in [0, 1)).")


def _structured(text: str, hint: Any) -> Any:
    """Parse a text as the list, mapping or None that a type asks for.

    ``query/value`` is a list, and so is one plain name, which PEFT would otherwise read as a regular expression that
    must match the full path of a module; ``query:8/value:4`` is a mapping.
    """
    among = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    origins = {get_origin(each) or each for each in among}
    if type(None) in among and text.lower() in ("none", "null"):
        return None
    if ":" in text and dict in origins:
        pairs = (part.partition(":") for part in text.split("/"))
        return {name.strip(): _value(value) for name, _, value in pairs}
    names = str in among and _PLAIN_NAME.fullmatch(text) and text.lower() != "all-linear"
    if list in origins and ("/" in text or names or not set(among) - {type(None)} - _lists(among)):
        return text.split("/")
    return text


def _value(text: str) -> Any:
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise AdapterError(f"{shown(text)} cannot be read as a number or a word: {error}.") from None


def _lists(among: tuple[Any, ...]) -> set[Any]:
    return {each for each in among if (get_origin(each) or each) is list}
