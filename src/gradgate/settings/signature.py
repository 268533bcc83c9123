"""Give functions the signature and the docstring that name every setting of their request."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic.fields import FieldInfo

from gradgate.settings.base import SECTIONS, CheckedSettings

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(of: type[CheckedSettings], keywords: Any) -> Callable[[Function], Function]:
    """Give a function with ``**settings`` the signature and the docstring that name each of them.

    Notebooks complete and show the names; a type checker reads them from the ``TypedDict`` itself.

    Args:
        of: the settings.
        keywords: the ``TypedDict`` of them, without those that are parameters of the function.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        plain = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        names = [name for name in in_sections(of) if name in keywords.__annotations__]
        settings = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=keywords.__annotations__[name].__forward_arg__,
            )
            for name in names
        ]
        described: Any = function
        described.__signature__ = own.replace(parameters=[*plain, *settings])
        lines = [f"    {name}: {_described(of.model_fields[name])}" for name in names]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Keyword Args:", *lines])
        return function

    return decorate


def in_sections(of: type[CheckedSettings]) -> list[str]:
    """Return the names of settings, ordered by subject; those without one come last."""
    places = {name: SECTIONS.index(section) for name, section in of.sections().items()}
    return sorted(of.model_fields, key=lambda name: places.get(name, len(SECTIONS)))


def shown_default(field: FieldInfo) -> str | None:
    """Return the default of a setting for people; None if there is nothing to say."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "default" in extra:
        return str(extra["default"])
    if field.is_required() or field.default is None or field.default is False or field.default == ():
        return None
    return "on" if field.default is True else str(field.default)


def _described(field: FieldInfo) -> str:
    default = shown_default(field)
    text = str(field.description).rstrip(".")
    return f"{text}{'' if default is None else f' [default: {default}]'}."
