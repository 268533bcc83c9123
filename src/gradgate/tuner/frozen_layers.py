"""Run the closed layers at the bottom of a model without dropout and, if cached, only once per example."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from gradgate.activation_cache.cache import ActivationCache, CachedForward, RowCounts
from gradgate.activation_cache.frozen_prefix import FrozenPrefix, closed_prefix
from gradgate.activation_cache.horizon import Horizon
from gradgate.layers import LayerMap
from gradgate.tuner.effect import ComingStep, Effect


class FrozenLayers(Effect):
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
