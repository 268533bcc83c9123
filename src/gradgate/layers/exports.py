"""Export a selection as a setting for other tools: regular expressions, axolotl, LlamaFactory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Literal

import yaml

from gradgate.errors import SelectorError
from gradgate.layers.map import LayerMap
from gradgate.layers.selectors import Selection

Tool = Literal["regex", "axolotl", "llamafactory"]
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def exported(selection: Selection, layers: LayerMap, tool: Tool) -> str:
    """Return the selection in a tool's own syntax.

    - ``regex`` writes one pattern per line; each must match a parameter's full name.
    - ``axolotl`` writes ``unfrozen_parameters``, with ranges of rows.
    - ``llamafactory`` writes ``finetuning_type: freeze`` with the layers and modules to train.

    Raises:
        SelectorError: if the tool cannot express the selection.
    """
    return _WRITERS[tool](selection, layers)


def _as_regex(selection: Selection, layers: LayerMap) -> str:
    if selection.partial:
        raise SelectorError(
            f"{selection.text!r} selects rows of {', '.join(selection.partial)}, which a regular expression cannot "
            f"express. Leave the rows out, or use tool='axolotl'."
        )
    return "\n".join(_patterns(list(selection.names), re.escape))


def _as_axolotl(selection: Selection, layers: LayerMap) -> str:
    """Return axolotl's setting. Axolotl escapes dots itself and matches from a name's start (``utils/freeze.py``)."""
    complete = [name for name in selection.names if name not in selection.partial]
    entries = [f"^{pattern}$" for pattern in _patterns(complete, lambda text: text)]
    entries += [f"^{name}$[{start}:{stop}]" for name, rows in selection.partial.items() for start, stop in rows]
    return yaml.safe_dump({"unfrozen_parameters": entries}, sort_keys=False, width=1000).rstrip()


def _patterns(names: list[str], escape: Callable[[str], str]) -> list[str]:
    """Return patterns that match only these names; names that differ in their first number share one."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for name in names:
        number = _NUMBER.search(name)
        ends = (name, "") if number is None else (name[: number.start()], name[number.end() :])
        numbers.setdefault(ends, []).append("" if number is None else number.group())
    return [f"{escape(head)}{_choice(each)}{escape(tail)}" for (head, tail), each in numbers.items()]


def _choice(numbers: list[str]) -> str:
    return numbers[0] if len(numbers) == 1 else f"({'|'.join(numbers)})"


def _as_llamafactory(selection: Selection, layers: LayerMap) -> str:
    """Return LlamaFactory's setting: the number of first or last layers, and the modules in them to train."""
    if selection.partial:
        raise _unsayable(selection, "it selects rows")
    by_layer = {group.name: _modules(group.parameter_names, selection, group.name) for group in layers.layers}
    chosen = [name for name, modules in by_layer.items() if modules]
    every = list(by_layer)
    sets = {frozenset(by_layer[name]) for name in chosen}
    if len(sets) > 1:
        raise _unsayable(selection, f"its layers have different modules: {', '.join(chosen)}")
    if chosen == every[len(every) - len(chosen) :]:  # a positive count means the last layers, a negative the first
        count = len(chosen)
    elif chosen == every[: len(chosen)]:
        count = -len(chosen)
    else:
        raise _unsayable(selection, f"{', '.join(chosen)} are neither the lowest nor the highest layers")
    inside = {name for group in layers.layers for name in group.parameter_names}
    extra = _modules(tuple(name for name in layers.weights if name not in inside), selection, "")
    modules = set().union(*sets)
    for index, module in product(map(every.index, chosen), modules):
        if others := _also_opened(f".{index}.{module}", selection, layers):
            raise _unsayable(selection, f"{module!r} of layer {index} also opens {others[0]}")
    left_out = {module for module in extra if _also_opened(module, selection, layers)}
    record = {
        "finetuning_type": "freeze",
        "freeze_trainable_layers": count,
        # LlamaFactory refuses an empty list of modules; "all" of no layers is nothing.
        "freeze_trainable_modules": ",".join(sorted(modules)) or "all",
    }
    if extra - left_out:
        record["freeze_extra_modules"] = ",".join(sorted(extra - left_out))
    lines = [_comment_on(module, selection, layers) for module in sorted(left_out)]
    return "\n".join([*lines, yaml.safe_dump(record, sort_keys=False).rstrip()])


def _also_opened(pattern: str, selection: Selection, layers: LayerMap) -> list[str]:
    """Return what LlamaFactory opens beyond a selection: it opens each parameter whose name contains a pattern.

    The rule is that of ``_setup_freeze_tuning`` in its ``model/adapter.py``.
    """
    return [name for name in layers.weights if pattern in name and name not in selection]


def _comment_on(module: str, selection: Selection, layers: LayerMap) -> str:
    """Return a comment on vectors, such as those of the last norm, that stay closed so that no others open."""
    names = [name for name in selection.names if name.split(".")[-2] == module]
    others = _also_opened(module, selection, layers)
    if any(len(layers.weights[name].shape) > 1 for name in names):
        raise _unsayable(selection, f"its {module!r} also opens {others[0]}, as that name contains it")
    return f"# {', '.join(names)} stays closed: LlamaFactory opens each name with {module!r}, such as {others[0]}"


def _modules(names: tuple[str, ...], selection: Selection, layer: str) -> set[str]:
    """Return the selected modules of a layer, or of the model outside its layers; raise if one is partly selected."""
    members: dict[str, list[str]] = {}
    for name in names:
        number = _NUMBER.search(name) if layer else None
        module = name.split(".")[-2] if number is None else name[number.end() + 1 :].split(".")[0]
        members.setdefault(module, []).append(name)
    chosen = {module for module, names_in in members.items() if any(name in selection for name in names_in)}
    for module in chosen:
        if not all(name in selection for name in members[module]):
            raise _unsayable(selection, f"it selects a part of {layer or 'the model'}'s {module!r}")
    return chosen


def _unsayable(selection: Selection, reason: str) -> SelectorError:
    return SelectorError(f"LlamaFactory cannot express {selection.text!r}: {reason}. Use tool='axolotl' or 'regex'.")


_WRITERS: Mapping[Tool, Callable[[Selection, LayerMap], str]] = {
    "regex": _as_regex,
    "axolotl": _as_axolotl,
    "llamafactory": _as_llamafactory,
}
