"""Look up methods by name or text, and register new ones."""

from __future__ import annotations

import os
import sys
from dataclasses import MISSING, Field, dataclass, fields
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from typing import Any, TypeVar

from gradgate.errors import MethodError, nearest
from gradgate.methods.base import Method, failure
from gradgate.methods.options import NEEDED_WITHOUT, option_types
from gradgate.specs import Spec, Syntax, shown

ENTRY_POINTS = "gradgate.methods"
FILES = "GRADGATE_METHODS"
"""Environment variable with Python files that register methods, separated as in ``PATH``."""

ADAPTERS = (
    "houlsby", "double_seq_bn", "double_seq_bn_inv", "pfeiffer", "seq_bn", "pfeiffer+inv", "seq_bn_inv", "par_bn",
    "scaled_par_bn", "lora", "dora", "rslora", "ia3", "shira", "peft",
)  # fmt: skip
"""Kinds of adapter, which are easily taken for methods; :mod:`gradgate.settings.arms.adapter` reads them."""

# Class to the file that has it, in the order of the catalogue. Each is imported when it is first asked for, so that
# commands that need no method stay light.
OWN_METHODS = {
    "Full": "gradgate.methods.fixed",
    "Head": "gradgate.methods.fixed",
    "Probe": "gradgate.methods.fixed",
    "Freeze": "gradgate.methods.fixed",
    "BitFit": "gradgate.methods.fixed",
    "NamedGroups": "gradgate.methods.fixed",
    "Gradual": "gradgate.methods.unfreezing",
    "GradFreeze": "gradgate.methods.gradfreeze",
    "LPFT": "gradgate.methods.unfreezing",
    "RandomOrder": "gradgate.methods.unfreezing",
    "GivenOrder": "gradgate.methods.unfreezing",
    "FUN": "gradgate.methods.fun",
    "GradDrop": "gradgate.methods.graddrop",
    "LayerGradDrop": "gradgate.methods.graddrop",
    "AnnealGradDrop": "gradgate.methods.graddrop",
    "AnnealLayerGradDrop": "gradgate.methods.graddrop",
    "GradDropEpoch": "gradgate.methods.graddrop",
    "GradDropEpochToggle": "gradgate.methods.graddrop",
    "Mixout": "gradgate.methods.mixout",
    "ChildTuning": "gradgate.methods.sparse",
    "Sparse": "gradgate.methods.sparse",
    "LISA": "gradgate.methods.lisa",
    "Blocks": "gradgate.methods.blocks",
    "GradES": "gradgate.methods.grades",
    "Spectrum": "gradgate.methods.spectrum",
    "MoFO": "gradgate.methods.mofo",
    "HFT": "gradgate.methods.hft",
    "LayerwiseRates": "gradgate.methods.layerwise_lr",
}
_CATALOG: dict[str, type[Method]] = {}

M = TypeVar("M", bound=type[Method])


@dataclass(frozen=True)
class MethodInfo:
    """An entry of the catalogue."""

    name: str
    cls: type[Method]
    summary: str
    paper: str
    deviates: str
    defaults: dict[str, Any]
    """Option to default; a required option has the value ``...``."""

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        return {
            "name": self.name,
            "summary": self.summary,
            "paper": self.paper,
            "deviates": self.deviates,
            "defaults": {name: None if value is ... else value for name, value in self.defaults.items()},
            "required": [name for name, value in self.defaults.items() if value is ...],
        }


def register(cls: M) -> M:
    """Add a method class under its ``name``, so that strings and the command line know it; use as a decorator.

    Raises:
        MethodError: for anything but a class derived from :class:`Method`, or a name that is taken.
    """
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise MethodError(f"Cannot register {cls!r:.80}. Expected a class derived from gradgate.Method.")
    known = _known().setdefault(cls.name, cls)
    if known is not cls:
        raise MethodError(f"The name {cls.name!r} is taken by {known.__module__}.{known.__qualname__}; choose another.")
    return cls


def registered_modules() -> tuple[str, ...]:
    """Return the modules of the methods that users registered, so that another process can import them."""
    own = {cls.__module__ for cls in _CATALOG.values()}
    return tuple(sorted(name for name in own if not name.startswith(f"{__package__}.")))


def methods() -> list[MethodInfo]:
    """Return all methods, in the order of the catalogue."""
    _load_own()
    return [
        MethodInfo(name, cls, cls.summary, cls.source, cls.deviates, _defaults(cls)) for name, cls in _known().items()
    ]


def methods_of_files() -> list[MethodInfo]:
    """Return the methods that a file describes, which have its path in place of options."""
    from gradgate.methods.axolotl import AxolotlFile
    from gradgate.methods.plan_file import PlanFile

    kinds: tuple[type[Method], ...] = (PlanFile, AxolotlFile)
    return [MethodInfo(_with_file(cls.name), cls, cls.summary, cls.source, cls.deviates, {}) for cls in kinds]


def _with_file(name: str) -> str:
    return f"{name}:FILE"


def method(spec: str | Method) -> Method:
    """Return the method that a text such as ``"gradual:every=50,order=bottom-up"`` names.

    Methods are joined by ``+``, as in ``"gradual:every=50+layerwise-lr:decay=0.9"``: see :class:`Combined`.

    Raises:
        MethodError: if a name or option is unknown, or a value is out of range.
    """
    if not isinstance(spec, str | Method):
        raise MethodError(f"{spec!r:.80} is not a method. Expected a text such as 'gradual:every=50', or a method.")
    return spec if isinstance(spec, Method) else build(parse(spec))


def parse(text: str) -> tuple[Spec, ...]:
    """Split a text into the methods that ``+`` joins, each with its options; MethodError if it has no such form."""
    return _SYNTAX.parse_joined(text)


def build(specs: tuple[Spec, ...]) -> Method:
    """Make the method of what :func:`parse` returns.

    Raises:
        MethodError: as :func:`method`.
    """
    parts = tuple(_build(part) for part in specs)
    read = parts[0] if len(parts) == 1 else _combined(parts)
    text = "+".join(str(part) if part.argument else str(part).replace(" ", "") for part in specs)
    object.__setattr__(read, "_text", text)  # not a field: methods are equal whatever their spelling
    return read


def known_names() -> tuple[str, ...]:
    """Return the names of all methods."""
    return (*_known(), *_SYNTAX.plain)


def is_known(name: str) -> bool:
    """Return whether there is a method of this name."""
    return name in _SYNTAX.plain or _class(name) is not None


def option_names(name: str) -> tuple[str, ...] | None:
    """Return the names of a method's options, with their aliases; None for an unknown method, which may have any."""
    if name in _SYNTAX.plain:
        return ()
    cls = _class(name)
    return None if cls is None else (*cls.aliases, *_defaults(cls))


def takes_option(name: str, option: str) -> bool:
    """Return whether a method has an option of this name; an unknown method may have any."""
    names = option_names(name)
    return names is None or option in names


def _combined(parts: tuple[Method, ...]) -> Method:
    from gradgate.methods.combined import Combined

    return Combined(methods=parts)


def _build(spec: Spec) -> Method:
    if spec.name == "plan":
        from gradgate.methods.plan_file import read_plan

        return read_plan(spec.argument)
    if spec.name == "axolotl":
        from gradgate.methods.axolotl import read_axolotl

        return read_axolotl(spec.argument)
    cls = _class(spec.name)
    if cls is None:
        if spec.name in ADAPTERS:
            raise MethodError(
                f"{shown(str(spec))} is an adapter, but a method is expected here. Add the adapter to the model "
                f"first (gradgate.adapters.add or peft.get_peft_model), and pass the method alone, such as 'full'; "
                f"gradgate.train and gradgate.compare take {shown(str(spec))} itself."
            )
        raise MethodError(
            f"There is no method {shown(spec.name)}.{nearest(spec.name, known_names())} "
            f"Known: {', '.join([*_known(), *map(_with_file, _SYNTAX.plain)])} (see 'gradgate methods')."
        )
    options = spec.renamed(cls.aliases).typed({name: option_types(cls)[name] for name in _defaults(cls)})
    missing = [
        " or ".join(f"{name}=..." for name in (option.name, option.metadata.get(NEEDED_WITHOUT)) if name)
        for option in fields(cls)
        if _is_needed(option) and not {option.name, option.metadata.get(NEEDED_WITHOUT)} & options.keys()
    ]
    if missing:
        raise MethodError(f"The method {cls.name!r} needs {', '.join(missing)}; {_options_of(cls.name)}.")
    return cls(**options)


def _known() -> dict[str, type[Method]]:
    """Return name to class of every registered method."""
    if not _CATALOG:
        own = (getattr(import_module(home), name) for name, home in OWN_METHODS.items())
        _CATALOG.update({cls.name: cls for cls in own})
    return _CATALOG


def _class(name: str) -> type[Method] | None:
    if name not in _known():
        _load_own()
    return _known().get(name)


def _load_own() -> None:
    """Register the methods of installed packages and of the files that ``GRADGATE_METHODS`` names."""
    _load_entry_points()
    for file in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        _load_file(Path(file))


def _load_file(file: Path) -> None:
    """Run a Python file that registers methods, once."""
    name = f"{__package__}.{file.resolve()}"  # in this package, as other processes load the file and not a module
    if name in sys.modules:
        return
    found = spec_from_file_location(name, file) if file.is_file() else None
    if found is None or found.loader is None:
        raise MethodError(f"{FILES} names {file}, which is not a Python file. Correct the path, or unset {FILES}.")
    module = sys.modules[name] = module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise MethodError(f"{file}, which {FILES} names, failed with {failure(error)}") from error
    for kind in vars(module).values():
        own = isinstance(kind, type) and issubclass(kind, Method) and kind.__module__ == name
        if own and not isabstract(kind) and kind not in _CATALOG.values():
            raise MethodError(
                f"{file}, which {FILES} names, defines the method {kind.__name__} but does not register it. Put "
                f"@gg.register above 'class {kind.__name__}'."
            )


def _load_entry_points() -> None:
    """Register the methods of installed packages that declare them under ``gradgate.methods``."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        cls = entry.load()
        if not (isinstance(cls, type) and issubclass(cls, Method)):
            raise MethodError(
                f"The entry point {entry.name!r} ({entry.value}) is not a class derived from Method. Correct "
                f"the package that declares it."
            )
        register(cls)


def _defaults(cls: type[Method]) -> dict[str, Any]:
    return {option.name: ... if _is_needed(option) else option.default for option in fields(cls)}


def _is_needed(option: Field[Any]) -> bool:
    return option.default is MISSING or NEEDED_WITHOUT in option.metadata


def _options_of(name: str) -> str:
    """Describe the options of a method, for an error."""
    cls = _class(name)
    if cls is None:
        return ""
    listed = ", ".join(option if v is ... else f"{option}={v}" for option, v in _defaults(cls).items())
    return f"options: {listed or 'none'}"


_SYNTAX = Syntax("method", error=MethodError, hint=_options_of, plain=("plan", "axolotl"))
