"""Import a package's names when they are first used (PEP 562), so that a light command stays light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build the ``__getattr__`` and ``__dir__`` of a package whose names live in modules that are not imported yet.

    A type checker does not see these names, so the package also imports them under ``TYPE_CHECKING``.

    Args:
        package: the package's ``__name__``.
        homes: name to the module that defines it. A module under its own full name stands for itself.

    Returns:
        ``__getattr__`` and ``__dir__``, to assign in the package.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        value = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
