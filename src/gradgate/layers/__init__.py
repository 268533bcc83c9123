"""A model's parameters, grouped by depth, found by the order in which they run."""

from gradgate.layers.find import map_layers
from gradgate.layers.map import Group, LayerMap
from gradgate.layers.names import canonical_name, named_parameters

__all__ = ["Group", "LayerMap", "canonical_name", "map_layers", "named_parameters"]
