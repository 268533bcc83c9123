"""Parse the text form ``name:option=value,option=value`` of methods, adapters and sweeps.

    METHOD = Syntax("method", error=MethodError)
    spec = METHOD.parse("gradual:every=50,order=bottom-up")
    spec.name, spec.options          # "gradual", {"every": "50", "order": "bottom-up"}
    spec.typed({"every": int, "order": str})
    str(spec)                        # the canonical text

Values may be lists (``layers=10/1/0``) and mappings (``reduction=0:8/default:2``). Methods are joined by ``+``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_origin

from gradgate.errors import GradgateError, UsageError, expectation, nearest, nearest_of_quoted

# A '+' joins two names only if a name follows, unlike in a number (1e+3) or in the path of a plan (a+b.yaml).
_JOIN = re.compile(r"\+(?=\s*[a-z][\w-]*\s*(?:[:+]|$))")
_SHOWN = 80  # characters of a text that a message quotes


@dataclass(frozen=True)
class Syntax:
    """The rules for reading one kind of text and for raising its errors.

    Args:
        what: what a text names, such as ``"method"``; used in errors.
        error: the class of the errors.
        hint: returns a hint about the options of a name, such as ``"options: p=0.2"``.
        plain: names followed by one plain text instead of options, such as the path in ``plan:FILE``.
    """

    what: str = "setting"
    error: type[GradgateError] = UsageError
    hint: Callable[[str], str] = lambda name: ""
    plain: Collection[str] = ()

    def parse(self, text: str) -> Spec:
        """Parse one name with its options.

        Raises:
            GradgateError: of the class ``error``, if an option is empty, repeated or without a value, or if the text
                contains control characters.
        """
        self._check_characters(text)
        name, _, rest = (part.strip() for part in text.partition(":"))
        if name in self.plain:
            return Spec(name, argument=rest, syntax=self)
        parts = [part.strip() for part in rest.split(",")] if rest else []
        options: dict[str, str] = {}
        for part in parts:
            option, equals, value = (word.strip() for word in part.partition("="))
            if not part:
                raise self.error(
                    f"The {self.what} {shown(text)} has an empty option. Expected option=value after {name!r}, with "
                    f"one comma between two options; remove the extra comma."
                )
            if not (equals and option):
                raise self.error(f"Expected option=value in {name!r}, got {shown(part)}{self._hinted(name)}.")
            if not value:
                raise self.error(
                    f"The option {option!r} of {name!r} has no value. Expected {option}=value; set it or leave the "
                    f"option out{self._hinted(name)}."
                )
            if option in options:
                raise self.twice(option, name)
            options[option] = value
        return Spec(name, tuple(options.items()), syntax=self)

    def parse_joined(self, text: str) -> tuple[Spec, ...]:
        """Parse the names that ``+`` joins, each with its options; one name if there is no ``+``."""
        self._check_characters(text)
        return tuple(self.parse(part) for part in split_joined(text))

    def twice(self, option: str, name: str) -> GradgateError:
        """Return the error for a repeated option."""
        return self.error(f"The option {option!r} of {name!r} is given twice. Give it once.")

    def _hinted(self, name: str) -> str:
        hint = self.hint(name)
        return f"; {hint}" if hint else ""

    def _check_characters(self, text: str) -> None:
        for place, character in enumerate(text, start=1):
            if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n\r":
                raise self.error(
                    f"The {self.what} {shown(text)} has the character {character!r} at position {place}. Expected "
                    f"printable text; remove the character."
                )


@dataclass(frozen=True)
class Spec:
    """A name with its options as typed; equal for texts that differ only in blanks.

    Attributes:
        name: the text before the colon.
        pairs: option and value, in the order of the text.
        argument: the text after the colon, for a name that takes one plain text.
        syntax: how the text was read.
    """

    name: str
    pairs: tuple[tuple[str, str], ...] = ()
    argument: str = ""
    syntax: Syntax = field(default=Syntax(), compare=False, repr=False)

    @property
    def options(self) -> dict[str, str]:
        """Option to value, in the order of the text."""
        return dict(self.pairs)

    def __str__(self) -> str:
        """Return the canonical text."""
        rest = self.argument or ",".join(f"{option}={value}" for option, value in self.pairs)
        return f"{self.name}:{rest}" if rest else self.name

    def renamed(self, aliases: Mapping[str, str]) -> Spec:
        """Return the spec with aliases replaced by the options' own names."""
        pairs: dict[str, str] = {}
        for option, value in self.pairs:
            canonical = aliases.get(option, option)
            if canonical in pairs:
                raise self.syntax.twice(canonical, self.name)
            pairs[canonical] = value
        return replace(self, pairs=tuple(pairs.items()))

    def without(self, *options: str) -> Spec:
        """Return the spec without these options; absent ones are ignored."""
        return replace(self, pairs=tuple((option, value) for option, value in self.pairs if option not in options))

    def updated(self, **options: str) -> Spec:
        """Return the spec with these options set; existing ones keep their place."""
        return replace(self, pairs=tuple((self.options | options).items()))

    def check_options(self, known: Collection[str]) -> None:
        """Raise an error with the nearest of the ``known`` options if the spec has any other option."""
        for option, _ in self.pairs:
            if option not in known:
                hint = self.syntax.hint(self.name) or f"options: {', '.join(known) or 'none'}"
                raise self.syntax.error(
                    f"The {self.syntax.what} {self.name!r} has no option {shown(option)}.{nearest(option, known)} "
                    f"{hint[0].upper()}{hint[1:]}."
                )

    def typed(self, kinds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as values of their types.

        Args:
            kinds: option to type, for every option that the name has; pydantic reads the values.

        Raises:
            GradgateError: for an option that is not in ``kinds``, or a value that is not of its type.
        """
        self.check_options(kinds)
        values: dict[str, Any] = {}
        for option, text in self.pairs:
            try:
                values[option] = typed_value(text, kinds[option])
            except ValueError as error:
                reason = str(error)
                raise self.syntax.error(
                    f"The option {shown(f'{option}={text}')} of {self.name!r} cannot be read: "
                    f"{reason[0].lower()}{reason[1:]}.{nearest_of_quoted(text, reason)}"
                ) from None
        return values


def split_joined(text: str) -> list[str]:
    """Split a text at each ``+`` that joins two names."""
    return _JOIN.split(text)


def typed_value(value: object, kind: Any) -> Any:
    """Return a value, or the text of one, as a type; pydantic converts it.

    Raises:
        ValueError: saying what was expected.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(structured(value, kind) if isinstance(value, str) else value)
    except ValidationError as error:
        raise ValueError(expectation(error.errors()[0])) from None


def structured(text: str, kind: Any) -> Any:
    """Return a value as the list, mapping or None that its type and text imply; otherwise the text.

    ``a/b`` is a list if the type is a tuple, ``a:1/b:2`` a mapping if the type allows one, and ``none`` is None if the
    type allows that.
    """
    among = get_args(kind) if get_origin(kind) is not tuple else ()
    if type(None) in among and text.lower() in ("none", "null"):
        return None
    if ":" in text and any(get_origin(each) is dict for each in (kind, *among)):
        return {name.strip(): value.strip() for name, _, value in (part.partition(":") for part in text.split("/"))}
    if get_origin(kind) is tuple:
        return tuple(text.split("/"))
    if any(get_origin(each) is tuple for each in among) and ("/" in text or text.isdigit()):
        return tuple(text.split("/"))
    return text


def shown(text: str) -> str:
    """Quote a text for a message: escaped, and shortened if it is long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text):,} characters)"
