"""Check settings once, when they are made, and say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from gradgate.errors import GradgateError, SpecError, UsageError, expectation, nearest, nearest_of_quoted
from gradgate.settings.trainer_names import gradgate_name

Settings = TypeVar("Settings", bound=BaseModel)
_WORDS = {"gpu": "cuda"}  # words for a value that are not like it
MOST_SEED = 2**32 - 1  # of numpy's generators
MOST_STEPS = 10**8
_MOST_BITS = 1024  # as many as a float has
MOST_EPOCHS = 1e5
LEAST_EPOCHS = 1e-6
MOST_IN_BATCH = 10**6
# torch ends the process where it is asked for far more threads than there are cores.
MOST_THREADS = 1024
SECTIONS = ("data", "method", "optimization", "precision and memory", "evaluation", "study", "output")
"""Subjects of settings, in the order of the help."""


class CheckedSettings(BaseModel):
    """Base class of validated settings, which refuse unknown names, empty values and infinite numbers.

    Attributes:
        section: the subject of the fields that a class declares, one of ``SECTIONS``.
    """

    section: ClassVar[str] = ""

    # Its validator is built with the first settings: help needs the fields alone.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_empty(cls, given: Any) -> Any:
        named = given.items() if isinstance(given, Mapping) else ()
        empty = [name for name, value in named if isinstance(value, str) and not value]
        if empty:
            names = ", ".join(f"{name}=" for name in empty)
            required = any(cls.model_fields[name].is_required() for name in empty if name in cls.model_fields)
            raise ValueError(
                f"{names} has an empty value; pass one{'' if required else ', or leave it out for its default'}"
            )
        return given

    @classmethod
    def sections(cls) -> dict[str, str]:
        """Return the subject of each field, as stated by the class that declares it."""
        found: dict[str, str] = {}
        for kind in reversed(cls.__mro__):
            own = getattr(kind, "__annotations__", {}) if "section" in vars(kind) else {}
            found |= {name: vars(kind)["section"] for name in own if name in cls.model_fields}
        return found

    def model_copy(self: Settings, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Settings:
        """Return the settings with some replaced, checked as new ones are.

        Raises:
            UsageError: as :func:`checked_settings`.
        """
        return checked_settings(type(self), {**dict(self), **(update or {})})


def checked_settings(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return settings of one kind from plain values; None means not passed.

    Raises:
        UsageError: naming every unknown name and every value out of range.
    """
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        _check_digits(name, value)
    unknown = [unknown_setting(name, kind.model_fields) for name in given if name not in kind.model_fields]
    if unknown:
        raise UsageError(" ".join(unknown))
    try:
        return kind(**given)
    except ValidationError as error:
        by_place = groupby(error.errors(), key=lambda item: _place(kind, item["loc"]))
        faults = "; ".join(_explain(kind, place, list(items)).rstrip(".") for place, items in by_place)
        causes = (item.get("ctx", {}).get("error") for item in error.errors())
        what = next((type(cause) for cause in causes if isinstance(cause, SpecError)), UsageError)
        raise what(faults if faults.endswith("?") else f"{faults}.") from None


def _check_digits(name: str, value: object) -> None:
    """Refuse a whole number that is too long to be shown, and for any setting."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, int) and each.bit_length() > _MOST_BITS:
            raise UsageError(f"{name}= is a number of more than {_MOST_BITS * 3 // 10} digits; pass a smaller one.")


def passed(settings: BaseModel, of: type[BaseModel] | None = None) -> dict[str, Any]:
    """Return the settings that were passed by name, of all or of one class's fields; without those at their default."""
    names = [name for name in (of or type(settings)).model_fields if name in settings.model_fields_set]
    return {name: getattr(settings, name) for name in names}


def unknown_setting(name: str, known: Iterable[str]) -> str:
    """Return what to say of a name that is not a setting: gradgate's name of a setting of Trainer, or the nearest."""
    known = list(known)
    ours = gradgate_name(name)
    if ours is not None and ours.partition("=")[0] in {"out", *(each.replace("-", "_") for each in known)}:
        return f"There is no setting {name!r}: gradgate's name is {ours}."
    return f"There is no setting {name!r}.{nearest(name, known)}"


def _place(kind: type[BaseModel], loc: tuple[Any, ...]) -> str:
    """Return where a value is wrong: the name of a setting, and its part unless that is one of several types."""
    field = kind.model_fields.get(str(loc[0])) if loc else None
    several = field is not None and get_origin(field.annotation) in (Union, UnionType)
    return ".".join(map(str, loc[:1] if several else loc))


def _explain(kind: type[BaseModel], place: str, items: list[Any]) -> str:
    """Say what is wrong with the value at one place, by one item per type that it may have."""
    item = items[0]
    cause = item.get("ctx", {}).get("error")
    if isinstance(cause, GradgateError):
        return str(cause)
    if item["type"] == "missing":
        return f"{place}= is missing: {kind.model_fields[place].description}"
    first, *others = dict.fromkeys(str(each.get("ctx", {}).get("error") or expectation(each)) for each in items)
    wrong = ", or ".join((first, *(other.removeprefix("expected ") for other in others)))
    if item["type"] == "literal_error":
        near = nearest_of_quoted(_WORDS.get(str(item["input"]), item["input"]), wrong)
        wrong += f".{near}" if near else ""
    return f"{place}={item['input']!r}: {wrong[0].lower()}{wrong[1:]}" if place else wrong
