"""Say where the tensors of a checkpoint are in its model, by the layer map of its configuration."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from gradgate.auditing.adapters import ADAPTER_PART
from gradgate.auditing.places import module_group
from gradgate.deltas.changes import name_prefixes
from gradgate.errors import GradgateError, RunError
from gradgate.files import read_json
from gradgate.layers.find import map_layers
from gradgate.layers.map import LayerMap
from gradgate.layers.selectors import Rows, select
from gradgate.layers.units import HEAD, Group, Weight
from gradgate.memory.configuration import build, read_configuration

if TYPE_CHECKING:
    from gradgate.auditing.checkpoint_files import StoredWeights

_PEFT = "base_model.model."  # before each name in PEFT's files
_WRAPPED = re.compile(r"\.((token_adapter\.)?base_layer|original_module|modules_to_save\.[^.]+)(?=\.)")
_HEADS = ("classifier", "score", "qa_outputs")  # that PEFT saves for a task; old versions do not note them
_TOKENS = ".token_adapter"  # between a table and its tokens that PEFT trains


@dataclass(frozen=True)
class StoredPlace:
    """The place of a tensor: its group, and its tower if the model has several."""

    group: str
    tower: str = ""

    @property
    def label(self) -> str:
        """Text for a table."""
        return f"{self.tower} {self.group}".strip()


def places_of(weights: StoredWeights, layers: LayerMap | None) -> dict[str, StoredPlace]:
    """Return the place of each tensor, by the layer map or else by the names of its modules."""
    groups: dict[str, Group] = {}
    if layers is not None:
        groups = {name: layers.group_of(inside) for name, inside in _mapped(weights, layers).items()}
    return {name: _place(groups.get(name), name) for name in weights.entries}


def places_of_adapter(adapter: StoredWeights, layers: LayerMap | None) -> dict[str, StoredPlace]:
    """Return the place of each tensor of an adapter: that of the module of the base which it adapts."""
    modules = {} if layers is None else _modules_of(layers)
    paths = adapted_modules(adapter, layers)
    return {name: _place(modules.get(path), name.removeprefix(_PEFT)) for name, path in paths.items()}


def _mapped(weights: StoredWeights, layers: LayerMap) -> dict[str, str]:
    """Return the map's name of each tensor that it has; of tied weights, a file may store each name."""
    first = {alias: tie[0] for tie in layers.ties for alias in tie}
    pairs = paired_names(weights.entries, [*layers.weights, *(alias for alias in first if alias not in layers.weights)])
    return {name: first.get(inside, inside) for name, inside in pairs.items()}


def _place(group: Group | None, name: str) -> StoredPlace:
    return StoredPlace(module_group(name)) if group is None else StoredPlace(group.name, group.tower)


def adapted_modules(adapter: StoredWeights, layers: LayerMap | None) -> dict[str, str]:
    """Return for each tensor of an adapter the path of the module that it adapts, as the base's layer map has it."""
    paths = {name: _adapted_module(name) for name in adapter.entries}
    modules = {} if layers is None else _modules_of(layers)
    # A head that has one name in both says nothing about the prefix of the others.
    known = paired_names([path for path in dict.fromkeys(paths.values()) if path not in modules], modules)
    return {name: known.get(path, path) for name, path in paths.items()}


def with_saved_modules(layers: LayerMap, adapter: StoredWeights) -> LayerMap:
    """Return the base's map with a head that has the saved modules which only the adapter's file brings.

    PEFT stores ``modules_to_save`` whole, such as the classifier of a base that was stored without one. What else
    the base lacks, such as the embeddings of a prompt, is in no group.
    """
    paths = adapted_modules(adapter, layers)
    known, wanted = _modules_of(layers), _saved_modules(adapter.folder)
    others = [name for name in adapter.entries if paths[name] not in known and not ADAPTER_PART.search(name)]
    inside = {name: name.removeprefix(_PEFT) for name in others}
    saved = {
        path: Weight(adapter.entries[name].shape)
        for name, path in inside.items()
        if any(f"{end}." in path for end in wanted)
    }
    if not saved:
        return layers
    count = sum(weight.count for weight in saved.values())
    head = Group(HEAD, len(layers), tuple(saved), count)
    if HEAD in layers:
        own = layers[HEAD]
        head = replace(
            own, parameter_names=own.parameter_names + tuple(saved), parameter_count=own.parameter_count + count
        )
    groups = (*(group for group in layers if group.name != HEAD), head)
    return replace(layers, groups=groups, weights={**layers.weights, **saved})


def _saved_modules(folder: Path) -> tuple[str, ...]:
    """Return the ends of the paths of modules that PEFT saves whole."""
    try:
        named = read_json(folder / "adapter_config.json").get("modules_to_save")
    except RunError:
        named = None
    return (*_HEADS, *(end for end in named if isinstance(end, str) and end)) if isinstance(named, list) else _HEADS


def _adapted_module(name: str) -> str:
    path = name.removeprefix(_PEFT)
    if found := ADAPTER_PART.search(path):
        return path[: found.start()]
    return path.rpartition(".")[0].removesuffix(_TOKENS) or path  # the tensors of a prompt are in no module


def _modules_of(layers: LayerMap) -> dict[str, Group]:
    """Return the modules that have parameters, each with its group."""
    return {name.rpartition(".")[0]: group for group in layers for name in group.parameter_names}


@dataclass(frozen=True)
class StoredSelection:
    """The tensors of a checkpoint that a selector names.

    Attributes:
        names: of the tensors.
        left_out: the other rows of those of which only some are selected.
        error: why nothing is selected.
    """

    names: frozenset[str] = frozenset()
    left_out: Mapping[str, Rows] = field(default_factory=dict)
    error: str = ""


def select_stored(weights: StoredWeights, layers: LayerMap | None, selector: str) -> StoredSelection:
    """Return the tensors that a selector names."""
    if layers is None:
        error = "The layers of this checkpoint are unknown: it has no readable config.json in its folder."
        return StoredSelection(error=error)
    try:
        selection = select(layers, selector)
    except GradgateError as error:
        return StoredSelection(error=str(error))
    mapped, left_out = _mapped(weights, layers), selection.left_out
    return StoredSelection(
        frozenset(name for name, inside in mapped.items() if inside in selection),
        {name: left_out[inside] for name, inside in mapped.items() if inside in left_out},
    )


def select_adapted(adapter: StoredWeights, layers: LayerMap | None, selector: str) -> StoredSelection:
    """Return the tensors of an adapter on modules of its base that a selector names."""
    if layers is None:
        return StoredSelection(error="The layers of the base are unknown: it has no readable config.json.")
    try:
        selected = {name.rpartition(".")[0] for name in select(layers, selector).names}
    except GradgateError as error:
        return StoredSelection(error=str(error))
    paths = adapted_modules(adapter, layers)
    return StoredSelection(frozenset(name for name, path in paths.items() if path in selected))


def paired_names(names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Return the known name of each name that has one, whatever prefix either class of a model or PEFT adds."""
    own = {name: name if name in known else _before_peft(name) for name in names}
    mine, theirs = name_prefixes(list(own.values()), known)
    pairs = {name: theirs + each[len(mine) :] if each.startswith(mine) else each for name, each in own.items()}
    return {name: there for name, there in pairs.items() if there in known}


def _before_peft(name: str) -> str:
    """Return the name that a tensor had before PEFT wrapped its module, or copied it to train the copy."""
    return _WRAPPED.sub("", name.removeprefix(_PEFT))


def layers_of_base(adapter: StoredWeights) -> LayerMap | None:
    """Return the layer map of the model that an adapter of PEFT names as its base; None if it cannot be read."""
    try:
        base = read_json(adapter.folder / "adapter_config.json").get("base_model_name_or_path")
    except RunError:
        return None
    return layers_of(base) if isinstance(base, str) and base else None


def layers_of(model: Path | str) -> LayerMap | None:
    """Return the layer map of the model that a configuration in a folder or on the hub describes; None without one."""
    try:
        config = read_configuration(str(model))
        return map_layers(_declared(config) or build(config, torch.float32))
    except GradgateError:
        return None


def _declared(config: Any) -> nn.Module | None:
    """Return the model of the class that wrote the configuration, without weights."""
    kind = getattr(transformers, next(iter(getattr(config, "architectures", None) or ()), ""), None)
    if kind is None:
        return None
    try:
        with torch.device("meta"):
            model: nn.Module = kind(config)
    except Exception:  # a class that needs more than its configuration
        return None
    return model
