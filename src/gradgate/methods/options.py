"""Give the options of a method the types that it declares, also where they are set in Python, and find idle ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gradgate.errors import MethodError
from gradgate.specs import typed_value

NEEDED_WITHOUT = "needed_without"
_ACTS_IF = "acts_if"
_PLAIN = {bool, int, float, str, NoneType}


def needed_without(other: str, default: Any) -> Any:
    """Return a field of a method that is required unless another option is passed; ``default`` means absent."""
    return field(default=default, metadata={NEEDED_WITHOUT: other})


def acts_if(default: Any, **others: Collection[Any]) -> Any:
    """Return a field of a method that has an effect only if another option has one of these values."""
    return field(default=default, metadata={_ACTS_IF: others})


def idle_options(method: Any) -> list[str]:
    """Describe each option of a method that differs from its default and that another option leaves without effect."""
    return [
        f"{option.name}={getattr(method, option.name)} has no effect with {other}={getattr(method, other)}, "
        f"only with {' or '.join(map(str, values))}"
        for option in fields(method)
        for other, values in option.metadata.get(_ACTS_IF, {}).items()
        if getattr(method, option.name) != option.default and getattr(method, other) not in values
    ]


@cache
def option_types(kind: type) -> dict[str, Any]:
    """Return the types of a method's options. Cached: finding them takes milliseconds, and each method needs them."""
    return get_type_hints(kind)


def choices(kind: type) -> dict[str, tuple[Any, ...]]:
    """Return the words that an option may be, for each option that is a choice of words."""
    return {name: get_args(each) for name, each in option_types(kind).items() if get_origin(each) is Literal}


def convert_options(method: Any) -> None:
    """Convert the options of a new method to the types that it declares, as those of a text.

    So ``2.0``, ``"2"`` and NumPy's 2 are 2 for a whole number, and a list is a tuple. Choices of words, and options
    that no text can set, such as those of a class of one's own, are left as they are.

    Raises:
        MethodError: naming each option that has another type.
    """
    kinds, wrong = option_types(method.__class__), list[str]()
    for option in fields(method):
        value, kind = getattr(method, option.name), kinds[option.name]
        if value is option.default or type(value) is kind or get_origin(kind) is Literal or not _is_plain(kind):
            continue
        try:
            object.__setattr__(method, option.name, _converted(value, kind))
        except ValueError as error:
            wrong.append(f"{option.name}={value!r:.80} ({error})")
    if wrong:
        raise MethodError(f"The method {method.name!r} cannot have {'; '.join(wrong)}.")


def _converted(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) and bool not in _parts(kind):
        raise ValueError("expected a number or a word, not true or false")
    return typed_value(value, kind)


def _is_plain(kind: Any) -> bool:
    return all(part in _PLAIN or part is ... for part in _parts(kind))


def _parts(kind: Any) -> Iterator[Any]:
    """Yield the types that a type is made of; the types of its words for a choice of words."""
    if get_origin(kind) in (Union, UnionType, tuple):
        for part in get_args(kind):
            yield from _parts(part)
    elif get_origin(kind) is Literal:
        yield from map(type, get_args(kind))
    else:
        yield kind
