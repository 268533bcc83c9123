"""Match names of parameters by regular expressions that people write, within bounds of time and size."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from math import prod
from typing import Any

MOST_SECONDS = 2.0
"""How long one expression may take on all names of a model."""
_LONGEST = 2000  # characters
_MOST_COPIES = 2000  # of a part of an expression that counted repeats ask for
_LONG_REPEAT = 8  # longer ones count as endless
_MOST_ENDLESS = 6
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")


@dataclass(frozen=True)
class NamePattern:
    """A regular expression in the syntax of ``re``.

    Args:
        text: the expression.

    Raises:
        ValueError: if it is not one, or too large; the message fits after the expression.
    """

    text: str

    def __post_init__(self) -> None:
        if len(self.text) > _LONGEST:
            raise ValueError(f"has {len(self.text):,} characters; expected at most {_LONGEST:,}")
        counts = (number for number in chain(*_COUNTS.findall(self.text)) if number)
        if prod(int(number[:9]) or 1 for number in counts) > _MOST_COPIES:
            raise ValueError(f"repeats a part too often; expected counts of at most {_MOST_COPIES:,} in all")
        try:
            re.compile(self.text)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"is not a valid regular expression: {error}") from None

    def matches(self, names: Iterable[str], *, whole: bool = True) -> list[str]:
        """Return the names that match, in their order.

        Args:
            names: of parameters or modules.
            whole: the whole name must match; else its beginning.

        Raises:
            ValueError: if that takes too long; the message fits after the expression.
        """
        match = self._compiled.fullmatch if whole else self._compiled.match
        end = time.monotonic() + MOST_SECONDS
        try:
            return [name for name in names if match(name, timeout=max(1e-3, end - time.monotonic()))]
        except TimeoutError:
            raise ValueError(
                f"takes more than {MOST_SECONDS:g} seconds on the names of this model; expected one without repeats "
                f"inside repeats, such as (a+)+"
            ) from None

    @cached_property
    def _compiled(self) -> Any:
        regex = import_module("regex")  # unlike re, it stops in time

        return regex.compile(self.text)

    def check_for_re(self) -> None:
        """Refuse what takes ``re`` itself exponentially long on some names, for libraries that use it.

        Raises:
            ValueError: for a repeat, or a choice, inside a repeat without end; the message fits after the expression.
        """
        parser = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
        found = _Repeats()
        found.count(parser.parse(self.text), inside=False)
        if found.nested or found.endless > _MOST_ENDLESS:
            raise ValueError(
                f"can take very long; expected at most {_MOST_ENDLESS} of the repeats * and +, and no repeat or choice "
                f"inside a repeat, such as (a+)+"
            )


class _Repeats:
    """Counts the repeats without end in a parsed expression, and whether one has another, or a choice, inside."""

    def __init__(self) -> None:
        self.endless, self.nested = 0, False

    def count(self, parsed: Any, inside: bool) -> None:
        for operation, value in parsed:
            name = str(operation)
            is_repeat = name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[1] > _LONG_REPEAT
            self.endless += is_repeat
            self.nested |= inside and (is_repeat or name == "BRANCH")
            for part in _parts(value):
                self.count(part, inside or is_repeat)


def _parts(value: Any) -> list[Any]:
    """Return the parsed expressions inside the value of an operation."""
    if type(value).__name__ == "SubPattern":
        return [value]
    return [part for each in value for part in _parts(each)] if isinstance(value, list | tuple) else []
