"""Run the closed layers at the bottom of a model once per example and cache their output."""

from __future__ import annotations

from gradgate.activation_cache.cache import ActivationCache, RowCounts
from gradgate.activation_cache.horizon import Horizon

__all__ = ["ActivationCache", "Horizon", "RowCounts"]
