"""Closed layers at the bottom of a model: which modules they are, and their output computed once for each example."""

from __future__ import annotations

from gradgate.activation_cache.cache import ActivationCache, RowCounts
from gradgate.activation_cache.horizon import Horizon

__all__ = ["ActivationCache", "Horizon", "RowCounts"]
