"""Import a package's names when they are first used (PEP 562), so that light commands stay light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package with names from modules that are not imported yet.

    A type checker does not see these names: the package also imports them under ``TYPE_CHECKING``. ``dir`` of the
    package shows what it lists as ``__all__``, and nothing that it imports for itself.

    Args:
        package: the package's ``__name__``.
        homes: name to the module that has it. A module under its own full name stands for itself.

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
        module = sys.modules[package]
        return sorted({*module.__all__, *(name for name in vars(module) if name.startswith("__"))})

    return get, names
