"""Run closed layers without dropout, with the running statistics that they have and, if cached, once per example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn
from torch.nn import Parameter
from torch.nn.modules.batchnorm import _NormBase

from gradgate.activation_cache.cache import ActivationCache, CachedForward, RowCounts
from gradgate.activation_cache.frozen_prefix import FrozenPrefix, closed_prefix
from gradgate.activation_cache.horizon import Horizon
from gradgate.layers import LayerMap
from gradgate.model_copies import noted
from gradgate.tuner.effect import ComingStep, Effect


class FrozenBottom(Effect):
    """Follows the closed groups from the bottom of a model, as its plans change.

    Args:
        model: without wrappers such as DDP.
        layers: its layer map.
        cache: stores the output of the closed layers; None to compute it in every pass.
        horizon: chooses how many layers are cached; needed with a cache.
    """

    on_model: ClassVar[bool] = True

    def __init__(
        self, model: nn.Module, layers: LayerMap, cache: ActivationCache | None = None, horizon: Horizon | None = None
    ) -> None:
        self._layers = layers
        layers = layers.at("layer")  # a forward pass is cached between layers
        self._horizon = horizon
        self._cached = CachedForward(model, layers, cache) if cache is not None else None
        prepare = self._cached.prepare if self._cached else lambda args, kwargs: None
        finish = self._cached.finish if self._cached else lambda: None
        self._prefix = FrozenPrefix(model, layers, prepare, finish)

    @property
    def counts(self) -> RowCounts | None:
        """Numbers of rows read from the cache and computed; None without a cache."""
        return self._cached.counts if self._cached else None

    def on_plan(self, coming: ComingStep) -> None:
        """Run the closed layers in evaluation mode, and cache the output of as many as pays."""
        self._prefix.follow(closed_prefix(coming.plan, self._layers))
        if self._cached is not None and self._horizon is not None:
            depth = self._horizon.layers_to_keep(coming.done, coming.timeline)
            self._cached.follow(depth, self._prefix.parts)

    def release(self) -> None:
        """Remove every hook and close the cache."""
        self._prefix.release()
        if self._cached is not None:
            self._cached.release()


class FrozenBatchNorms(Effect):
    """Runs batch norms in evaluation mode while everything in the module around them is closed.

    In training mode a batch norm normalises by its batch and moves its running mean and variance, which changes a
    closed layer although its weights stay. While it is closed it uses the statistics that it has, as Keras does for
    ``trainable=False``. Modules in which nothing is in a group, such as a momentum encoder, are left alone.

    Args:
        model: without wrappers such as DDP.
        parameters: those in groups of the layer map, by name.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, model: nn.Module, parameters: Mapping[str, Parameter]) -> None:
        names = {id(parameter): name for name, parameter in parameters.items()}
        self._norms = {
            module: frozenset(names[id(p)] for p in around.parameters() if id(p) in names)
            for module, around in _norms(model, model)
        }
        self._norms = {module: inside for module, inside in self._norms.items() if inside}
        self._closed: set[nn.Module] = set()
        self._in_evaluation: set[nn.Module] = set()
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Register hooks on the batch norms, if there are any."""
        for module in self._norms:
            self._hooks.append(
                noted(module.register_forward_pre_hook(lambda module, _: self._enter_evaluation(module)))
            )
            self._hooks.append(
                noted(module.register_forward_hook(lambda m, *_: self._leave_evaluation(m), always_call=True))
            )

    def on_plan(self, coming: ComingStep) -> None:
        """Note which batch norms are closed."""
        self._closed = {module for module, names in self._norms.items() if names.isdisjoint(coming.opened)}

    def release(self) -> None:
        """Remove every hook."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _enter_evaluation(self, module: nn.Module) -> None:
        if module in self._closed and module.training:
            self._in_evaluation.add(module)
            module.training = False

    def _leave_evaluation(self, module: nn.Module) -> None:
        if module in self._in_evaluation:
            self._in_evaluation.remove(module)
            module.training = True


def _norms(module: nn.Module, around: nn.Module) -> list[tuple[nn.Module, nn.Module]]:
    """Return each norm with running statistics, and the innermost module with parameters that is or contains it."""
    around = module if next(module.parameters(), None) is not None else around
    own = [(module, around)] if isinstance(module, _NormBase) and module.running_mean is not None else []
    return own + [pair for child in module.children() for pair in _norms(child, around)]
