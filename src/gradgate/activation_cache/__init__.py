"""The closed layers at the bottom of a model: quiet, and computed once for each example."""

from __future__ import annotations

from gradgate.activation_cache.cache import ActivationCache, Tally
from gradgate.activation_cache.effect import FrozenPrefix
from gradgate.activation_cache.horizon import Horizon

__all__ = ["ActivationCache", "FrozenPrefix", "Horizon", "Tally"]
