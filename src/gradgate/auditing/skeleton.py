"""Map a model that is being trained without running it: on a copy of its structure that has no data."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.layers.find import map_layers
from gradgate.layers.map import LayerMap

_OVERRIDES = ("forward", "_original_forward", "_old_forward", "_hf_hook")  # bound to the module that is copied


def map_without_running(model: nn.Module) -> LayerMap | None:
    """Return the layer map of a model, or None if it has none.

    The forward that finds the layers runs on a copy with tensors on the meta device, so that neither the model, its
    buffers, its hooks nor any random state is touched.

    Args:
        model: without DDP and ``torch.compile`` around it.
    """
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            return map_layers(_copy(model))
    except Exception:  # a model of any code: its modules' names are then its map
        return None


def _copy(model: nn.Module) -> nn.Module:
    sharded = next((kind for kind in type(model).__mro__ if kind.__name__ == "FSDPModule"), None)
    config = getattr(model, "config", None)
    if sharded is not None and config is not None:  # its hooks would gather shards
        kind = next(each for each in type(model).__mro__[1:] if each is not sharded and issubclass(each, nn.Module))
        with torch.device("meta"):
            fresh: nn.Module = kind(config)
        flags = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        for name, parameter in fresh.named_parameters():
            parameter.requires_grad_(flags.get(name, True))
        return fresh
    return _copied(model, {})


def _copied(module: nn.Module, known: dict[int, Any]) -> nn.Module:
    """Return a module of the same class with the same attributes, its tensors and modules replaced by copies."""
    if id(module) in known:
        copied: nn.Module = known[id(module)]
        return copied
    fresh = module.__class__.__new__(module.__class__)
    known[id(module)] = fresh
    attributes = {
        name: value.copy() if type(value) in (list, dict, set) else value
        for name, value in module.__dict__.items()
        if name not in _OVERRIDES
    }
    for name, value in attributes.items():
        if name.endswith("_hooks") or "_hooks_" in name:
            attributes[name] = OrderedDict() if isinstance(value, dict) else value
    attributes["_parameters"] = {name: _without_data(each, known) for name, each in module._parameters.items()}
    attributes["_buffers"] = {name: _without_data(each, known) for name, each in module._buffers.items()}
    attributes["_modules"] = {
        name: None if child is None else _copied(child, known) for name, child in module._modules.items()
    }
    fresh.__dict__.update(attributes)
    return fresh


def _without_data(tensor: Tensor | None, known: dict[int, Any]) -> Tensor | None:
    if tensor is None:
        return None
    if id(tensor) not in known:
        empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        known[id(tensor)] = (
            nn.Parameter(empty, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
        )
    found: Tensor = known[id(tensor)]
    return found
