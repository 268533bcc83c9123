"""A model's parameters, grouped by depth, found by the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.layers.map import LayerMap
from gradgate.layers.names import canonical_name, named_parameters
from gradgate.layers.units import Group, Unit
from gradgate.lazy import lazy_names

if TYPE_CHECKING:
    from gradgate.layers.find import map_layers

__all__ = ["Group", "LayerMap", "Unit", "canonical_name", "map_layers", "named_parameters"]

__getattr__, __dir__ = lazy_names(__name__, {"map_layers": "gradgate.layers.find"})
