"""Say where the tensors of a checkpoint are in its model, by the layer map of its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from gradgate.auditing.adapters import ADAPTER_PART
from gradgate.auditing.places import module_group
from gradgate.deltas.changes import name_prefixes
from gradgate.deltas.safetensors_file import Entry
from gradgate.errors import GradgateError
from gradgate.layers.find import map_layers
from gradgate.layers.map import LayerMap
from gradgate.layers.selectors import select
from gradgate.memory.configuration import build, read_configuration

if TYPE_CHECKING:
    from gradgate.auditing.checkpoint_files import StoredWeights


@dataclass(frozen=True)
class StoredPlace:
    """The place of a tensor: its group, and its tower if the model has several."""

    group: str
    tower: str = ""

    @property
    def label(self) -> str:
        """Text for a table."""
        return f"{self.tower} {self.group}".strip()


def places_of(weights: StoredWeights) -> dict[str, StoredPlace]:
    """Return the place of each tensor, by the layer map or else by the names of its modules."""
    layers = layers_of(weights.folder)
    if layers is None:
        return {name: StoredPlace(module_group(name)) for name in weights.entries}
    mapped = _names_in_map(weights, layers)
    places = {}
    for name in weights.entries:
        if name in mapped:
            group = layers.group_of(mapped[name])
            places[name] = StoredPlace(group.name, group.tower)
        else:
            places[name] = StoredPlace(module_group(name))
    return places


def places_of_adapter(adapter: StoredWeights, layers: LayerMap) -> dict[str, StoredPlace]:
    """Return the place of each tensor of an adapter: that of the module of the base which it adapts."""
    groups = {name.rpartition(".")[0]: group for group in layers for name in group.parameter_names}
    paths = {name: adapted_module(name) for name in adapter.entries}
    return {name: StoredPlace(groups[path].name, groups[path].tower) for name, path in paths.items() if path in groups}


def adapted_module(name: str) -> str:
    """Return the path in the base of the module that a tensor of PEFT's adapts."""
    path = name.removeprefix("base_model.model.")
    found = ADAPTER_PART.search(path)
    return path[: found.start()] if found else path.rpartition(".")[0]


def select_stored(weights: StoredWeights, selector: str) -> tuple[frozenset[str], str]:
    """Return the tensors that a selector names, and why there are none."""
    layers = layers_of(weights.folder)
    if layers is None:
        return frozenset(), "The layers of this checkpoint are unknown: it has no readable config.json in its folder."
    try:
        selected = set(select(layers, selector).names)
    except GradgateError as error:
        return frozenset(), str(error)
    return frozenset(name for name, inside in _names_in_map(weights, layers).items() if inside in selected), ""


def select_adapted(adapter: StoredWeights, layers: LayerMap | None, selector: str) -> tuple[frozenset[str], str]:
    """Return the tensors of an adapter on modules of its base that a selector names, and why there are none."""
    if layers is None:
        return frozenset(), "The layers of the base are unknown: it has no readable config.json."
    try:
        selected = {name.rpartition(".")[0] for name in select(layers, selector).names}
    except GradgateError as error:
        return frozenset(), str(error)
    return frozenset(name for name in adapter.entries if adapted_module(name) in selected), ""


@cache
def layers_of(folder: Path) -> LayerMap | None:
    """Return the layer map of the model that a folder's configuration describes; None if there is none."""
    try:
        config = read_configuration(str(folder))
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


def _names_in_map(weights: StoredWeights, layers: LayerMap) -> dict[str, str]:
    """Return the model's name of each tensor that is a parameter, whatever prefix either class adds."""
    known = {name: Entry("F32", each.shape) for name, each in layers.weights.items()}
    mine, theirs = name_prefixes(weights.entries, known)
    pairs = {name: theirs + name[len(mine) :] if name.startswith(mine) else name for name in weights.entries}
    return {name: inside for name, inside in pairs.items() if inside in known}
