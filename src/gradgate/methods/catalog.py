"""Names to methods: the catalogue, the text form ``name:option=value,...`` and how to add one's own."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import entry_points
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from gradgate.errors import MethodError, nearest
from gradgate.methods.base import Method
from gradgate.methods.blocks import LISA
from gradgate.methods.combined import Combined
from gradgate.methods.fixed import BitFit, Freeze, Full, Head, NamedGroups
from gradgate.methods.fun import FUN
from gradgate.methods.graddrop import (
    AnnealGradDrop,
    AnnealLayerGradDrop,
    GradDrop,
    GradDropEpoch,
    GradDropEpochToggle,
    LayerGradDrop,
)
from gradgate.methods.layerwise_lr import LayerwiseRates
from gradgate.methods.mixout import Mixout
from gradgate.methods.plan_file import PlanFile
from gradgate.methods.sparse import ChildTuning
from gradgate.methods.unfreezing import LPFT, GivenOrder, GradFreeze, Gradual, RandomOrder

ENTRY_POINTS = "gradgate.methods"

_OWN: tuple[type[Method], ...] = (
    Full,
    Head,
    Freeze,
    BitFit,
    NamedGroups,
    Gradual,
    GradFreeze,
    LPFT,
    RandomOrder,
    GivenOrder,
    FUN,
    GradDrop,
    LayerGradDrop,
    AnnealGradDrop,
    AnnealLayerGradDrop,
    GradDropEpoch,
    GradDropEpochToggle,
    Mixout,
    ChildTuning,
    LISA,
    LayerwiseRates,
)
_CATALOG: dict[str, type[Method]] = {cls.name: cls for cls in _OWN}

# A '+' before a method's name; in a number or the path of a plan something else comes after it.
_JOIN = re.compile(r"\+(?=\s*[a-z][\w-]*\s*([:+]|$))")

M = TypeVar("M", bound=type[Method])


@dataclass(frozen=True)
class MethodInfo:
    """One row of the catalogue."""

    name: str
    cls: type[Method]
    summary: str
    paper: str
    deviates: str
    defaults: dict[str, Any]
    """Option to default; an option that must be given has the value ``...``."""


def register(cls: M) -> M:
    """Add a method class under its ``name``, so that strings and the command line know it; use as a decorator."""
    known = _CATALOG.setdefault(cls.name, cls)
    if known is not cls:
        raise MethodError(f"The name {cls.name!r} is taken by {known.__module__}.{known.__qualname__}; choose another.")
    return cls


def methods() -> list[MethodInfo]:
    """Every method there is, in the order of the catalogue."""
    _load_entry_points()
    return [
        MethodInfo(name, cls, cls.summary, cls.source, cls.deviates, _defaults(cls)) for name, cls in _CATALOG.items()
    ]


def method(spec: str | Method) -> Method:
    """The method that a text such as ``"gradual:every=50,order=bottom-up"`` names.

    Methods are joined by ``+``, as in ``"gradual:every=50+layerwise-lr:decay=0.9"``: see :class:`Combined`.

    Raises:
        MethodError: for an unknown name or option, or a value that is out of range.
    """
    if isinstance(spec, Method):
        return spec
    if _JOIN.search(spec):
        return Combined(methods=tuple(method(part) for part in _JOIN.sub("\n", spec).split("\n")))
    name, _, rest = spec.partition(":")
    if name.strip() == PlanFile.name:
        from gradgate.methods.plan_file import read_plan  # it reads a file, which nothing in this package does

        return read_plan(rest.strip())
    if name.strip() not in _CATALOG:
        _load_entry_points()
    cls = _CATALOG.get(name.strip())
    if cls is None:
        raise MethodError(
            f"There is no method {name.strip()!r}.{nearest(name.strip(), _CATALOG)} "
            f"Known: {', '.join(_CATALOG)} (see 'gradgate methods')."
        )
    return cls(**_options(cls, rest))


def _load_entry_points() -> None:
    """Register the methods of installed packages that declare them under ``gradgate.methods``."""
    for entry in entry_points(group=ENTRY_POINTS):
        cls = entry.load()
        if not (isinstance(cls, type) and issubclass(cls, Method)):
            raise MethodError(f"The entry point {entry.name!r} ({entry.value}) is no class derived from Method.")
        register(cls)


def _defaults(cls: type[Method]) -> dict[str, Any]:
    return {option.name: ... if option.default is MISSING else option.default for option in fields(cls)}


def _options(cls: type[Method], text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    known = get_type_hints(cls)
    names = [option.name for option in fields(cls)]
    for part in filter(None, (part.strip() for part in text.split(","))):
        option, equals, value = (word.strip() for word in part.partition("="))
        option = cls.aliases.get(option, option)
        if not equals:
            raise MethodError(f"Expected option=value in {cls.name!r}, got {part!r}; options: {_listed(cls)}.")
        if option not in names:
            raise MethodError(
                f"The method {cls.name!r} has no option {option!r}.{nearest(option, names)} Options: {_listed(cls)}."
            )
        if option in options:
            raise MethodError(f"The option {option!r} of {cls.name!r} is given twice.")
        options[option] = _value(cls, option, known[option], value)
    missing = [name for name, default in _defaults(cls).items() if default is ... and name not in options]
    if missing:
        raise MethodError(f"The method {cls.name!r} needs {', '.join(f'{name}=...' for name in missing)}.")
    return options


def _value(cls: type[Method], option: str, kind: Any, text: str) -> Any:
    listed = [arg for arg in (kind, *get_args(kind)) if get_origin(arg) is tuple]
    try:
        if listed and (listed[0] is kind or "/" in text or text.isdigit()):
            return TypeAdapter(kind).validate_python(tuple(text.split("/")))
        return TypeAdapter(kind).validate_python(text)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise MethodError(
            f"The option {option}={text!r} of {cls.name!r} cannot be read: {reason[0].lower()}{reason[1:]}."
        ) from None


def _listed(cls: type[Method]) -> str:
    return ", ".join(f"{k}" if v is ... else f"{k}={v}" for k, v in _defaults(cls).items()) or "none"
