"""Map a model that is being trained without running it: on a copy of its structure that has no data."""

from __future__ import annotations

import io
import warnings
from collections import OrderedDict
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.auditing.sharding import Shape, is_shell, original_class, shapes_of_shards
from gradgate.layers.find import map_layers
from gradgate.layers.map import LayerMap

_OVERRIDES = ("forward", "_original_forward", "_old_forward", "_hf_hook")  # bound to the module that is copied


def map_without_running(model: nn.Module) -> LayerMap | None:
    """Return the layer map of a model, or None if it has none.

    The forward that finds the layers runs on a copy with tensors on the meta device, so that neither the model, its
    buffers, its hooks nor any random state is touched. What that forward prints is not shown.

    Args:
        model: without DDP and ``torch.compile`` around it.
    """
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return map_layers(_Copier(model).copied(model))
    except Exception:  # a model of any code: its modules' names are then its map
        return None


class _Copier:
    """Copies modules, once each; their tensors are on the meta device.

    Sharding is left out, which runs by hooks or by a state that a copy would share with its module.

    Args:
        model: all that may be copied is inside it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._known: dict[int, Any] = {}
        self._shapes: dict[int, Shape] = shapes_of_shards(model)

    def copied(self, module: nn.Module) -> nn.Module:
        """Return a module of the same class with the same attributes, its tensors and modules replaced by copies."""
        if is_shell(module):
            return self.copied(module.module)
        if id(module) in self._known:
            copied: nn.Module = self._known[id(module)]
            return copied
        kind = original_class(module)
        fresh = kind.__new__(kind)
        self._known[id(module)] = fresh
        attributes = {
            name: value.copy() if type(value) in (list, dict, set) else value
            for name, value in module.__dict__.items()
            if name not in _OVERRIDES
        }
        for name, value in attributes.items():
            if name.endswith("_hooks") or "_hooks_" in name:
                attributes[name] = OrderedDict() if isinstance(value, dict) else value
        attributes["_parameters"] = {name: self._without_data(each) for name, each in module._parameters.items()}
        attributes["_buffers"] = {name: self._without_data(each) for name, each in module._buffers.items()}
        attributes["_modules"] = {
            name: None if child is None else self.copied(child) for name, child in module._modules.items()
        }
        fresh.__dict__.update(attributes)
        return fresh

    def _without_data(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        if id(tensor) not in self._known:
            shape = self._shapes.get(id(tensor), tensor.shape)
            empty = torch.empty(shape, dtype=tensor.dtype, device="meta")
            self._known[id(tensor)] = (
                nn.Parameter(empty, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
            )
        found: Tensor = self._known[id(tensor)]
        return found
