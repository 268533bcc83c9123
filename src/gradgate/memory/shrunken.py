"""Shrink a model to some of its layers, with fake weights, within a context."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import Parameter

from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.names import canonical_name


@dataclass(frozen=True, eq=False)
class LayerStack:
    """A list of layers that run once each, so that some can be left out.

    Attributes:
        path: canonical name of the list.
        container: the ModuleList or Sequential.
        layers: name of the group -> the layer's key in the list, from the bottom.
    """

    path: str
    container: nn.Module
    layers: dict[str, str]

    def module(self, group: str) -> nn.Module:
        """Return the layer of a group."""
        return self.container._modules[self.layers[group]] or self.container


def layer_stacks(model: nn.Module, layers: LayerMap) -> list[LayerStack]:
    """Return the stacks of a model that can be shrunk, without those that share layers or span two lists."""
    modules = {canonical_name(raw): module for raw, module in model.named_modules()}
    group_of = {name: group.name for group in layers for name in group.parameter_names}
    owner = {id(p): group_of[name] for name, p in named_parameters(model).items() if name in group_of}
    stacks = []
    for path in dict.fromkeys(group.stack for group in layers.layers if group.stack):
        groups = [group.name for group in layers.layers if group.stack == path]
        container = modules.get(path)
        keys: dict[str, str] = {}
        plain = container is not None and all(layers[name].uses == 1 for name in groups)
        for key, child in container._modules.items() if plain and container is not None else ():
            owners = {owner[id(p)] for p in child.parameters() if id(p) in owner} if child is not None else set()
            if owners & set(groups):
                # A child that is one layer, and a layer that is one child: otherwise dropping it would change others.
                plain = plain and len(owners) == 1 and not owners & keys.keys()
                keys |= dict.fromkeys(owners, key)
        if plain and container is not None and list(keys) == groups:
            stacks.append(LayerStack(path, container, keys))
    return stacks


def without(layers: LayerMap, dropped: Collection[str]) -> LayerMap:
    """Return the map of a model that lacks some layers."""
    return replace(layers, groups=tuple(group for group in layers if group.layer not in dropped))


@contextmanager
def shrunken(model: nn.Module, stacks: list[LayerStack], dropped: Collection[str]) -> Iterator[None]:
    """Leave some layers out of a model and replace its weights by fake ones within the body, then restore both.

    The layers that stay keep their names. Use it within a ``FakeTensorMode``.
    """
    lists = [(stack.container, stack.container._modules) for stack in stacks]
    settings = [(config, dict(vars(config))) for config in _configurations(model)]
    tensors: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for stack in stacks:
            gone = {key for group, key in stack.layers.items() if group in dropped}
            stays = [group not in dropped for group in stack.layers]
            # A new dict, so that the old one can be put back; deleting from a ModuleList would renumber its layers.
            stack.container._modules = {k: m for k, m in stack.container._modules.items() if k not in gone}
            for config, values in settings:
                _shorten(config, values, stays)
        made: dict[int, torch.Tensor] = {}
        for module in model.modules():
            for registry in (module._parameters, module._buffers):
                tensors.append((registry, dict(registry)))
                registry |= {name: _fake(tensor, made) for name, tensor in registry.items() if tensor is not None}
        yield
    finally:
        for registry, before in tensors:
            registry.clear()
            registry |= before
        for container, modules in lists:
            container._modules = modules
        for config, values in settings:
            vars(config).clear()
            vars(config).update(values)


def _configurations(model: nn.Module) -> list[Any]:
    modules = (m for m in model.modules() if hasattr(m, "config") and hasattr(m.config, "__dict__"))
    return list({id(m.config): m.config for m in modules}.values())


def _shorten(config: Any, values: dict[str, Any], stays: list[bool]) -> None:
    """Cut the lists of a configuration with one entry per layer, such as ``layer_types``, to the remaining layers."""
    for name, value in values.items():
        if "layer" in name and isinstance(value, list | tuple) and len(value) == len(stays) > 1:
            items = [item for item, stay in zip(value, stays, strict=True) if stay]
            vars(config)[name] = tuple(items) if isinstance(value, tuple) else items


def _fake(tensor: torch.Tensor, made: dict[int, torch.Tensor]) -> torch.Tensor:
    """Return a tensor of the same shape without data; the same one for tied tensors."""
    if id(tensor) not in made:
        empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        made[id(tensor)] = Parameter(empty, tensor.requires_grad) if isinstance(tensor, Parameter) else empty
    return made[id(tensor)]
