"""Hold the running statistics of normalising modules while their parameters are closed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from torch import nn
from torch.nn import Parameter
from torch.nn.modules.batchnorm import _NormBase

from gradgate.tuner.effect import ComingStep, Effect


class HeldStatistics(Effect):
    """Runs batch norms in evaluation mode while everything in the module around them is closed.

    In training mode a batch norm normalises by its batch and moves its running mean and variance, which changes a
    closed layer although its weights stay. While it is closed it uses the statistics that it has, as Keras does for
    ``trainable=False``. Modules in which nothing is in a group, such as a momentum encoder, are left alone.

    Args:
        model: without wrappers such as DDP.
        parameters: those in groups of the layer map, by name.
    """

    def __init__(self, model: nn.Module, parameters: Mapping[str, Parameter]) -> None:
        names = {id(parameter): name for name, parameter in parameters.items()}
        self._norms = {
            module: frozenset(names[id(p)] for p in around.parameters() if id(p) in names)
            for module, around in _norms(model, model)
        }
        self._norms = {module: inside for module, inside in self._norms.items() if inside}
        self._closed: set[nn.Module] = set()
        self._held: set[nn.Module] = set()
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Register hooks on the batch norms, if there are any."""
        for module in self._norms:
            self._hooks.append(module.register_forward_pre_hook(lambda module, _: self._hold(module)))
            self._hooks.append(module.register_forward_hook(lambda m, *_: self._let_go(m), always_call=True))

    def on_plan(self, coming: ComingStep) -> None:
        """Note which batch norms are closed."""
        self._closed = {module for module, names in self._norms.items() if _is_closed(names, coming.opened)}

    def release(self) -> None:
        """Remove every hook."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _hold(self, module: nn.Module) -> None:
        if module in self._closed and module.training:
            self._held.add(module)
            module.training = False

    def _let_go(self, module: nn.Module) -> None:
        if module in self._held:
            self._held.remove(module)
            module.training = True


def _is_closed(names: Set[str], opened: Set[str]) -> bool:
    return names.isdisjoint(opened)


def _norms(module: nn.Module, around: nn.Module) -> list[tuple[nn.Module, nn.Module]]:
    """Return each norm with running statistics, and the innermost module with parameters that is or contains it."""
    around = module if next(module.parameters(), None) is not None else around
    own = [(module, around)] if isinstance(module, _NormBase) and module.running_mean is not None else []
    return own + [pair for child in module.children() for pair in _norms(child, around)]
