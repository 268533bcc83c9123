"""What a tuner does for the closed prefix of its model: evaluation mode always, the cache where there is one."""

from __future__ import annotations

from torch import nn

from gradgate.activation_cache.cache import ActivationCache, Reuse, Tally
from gradgate.activation_cache.frozen_prefix import Quiet, closed_prefix
from gradgate.activation_cache.horizon import Horizon
from gradgate.layers import LayerMap
from gradgate.methods.base import Plan
from gradgate.methods.plan_file import Timeline


class FrozenPrefix:
    """The closed groups from the bottom of one model, as its plans come and go, until :meth:`release`.

    Args:
        model: without wrappers such as DDP.
        layers: its layer map.
        cache: where the output of the prefix is kept; None for nowhere.
        horizon: chooses how many layers are kept.
    """

    def __init__(
        self, model: nn.Module, layers: LayerMap, cache: ActivationCache | None = None, horizon: Horizon | None = None
    ) -> None:
        self._layers = layers
        self._horizon = horizon
        self._reuse = Reuse(model, layers, cache) if cache is not None else None
        prepare = self._reuse.prepare if self._reuse else lambda args, kwargs: None
        finish = self._reuse.finish if self._reuse else lambda: None
        self._quiet = Quiet(model, layers, prepare, finish)

    @property
    def tally(self) -> Tally | None:
        """How many rows were read from the cache and computed; None without a cache."""
        return self._reuse.tally if self._reuse else None

    def follow(self, plan: Plan, step: int, timeline: Timeline) -> None:
        """Take up the plan for the step after ``step`` done ones; ``timeline`` has it already."""
        self._quiet.follow(closed_prefix(plan, self._layers))
        if self._reuse is not None and self._horizon is not None:
            self._reuse.follow(self._horizon.layers_to_keep(step, timeline), self._quiet.parts)

    def release(self) -> None:
        """Remove every hook and let go of the cache."""
        self._quiet.release()
        if self._reuse is not None:
            self._reuse.release()
