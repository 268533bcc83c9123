"""Group a model's parameters by depth, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.layers.map import LayerMap
from gradgate.layers.names import canonical_name, named_parameters
from gradgate.layers.units import Group, Unit
from gradgate.lazy import lazy_names

if TYPE_CHECKING:
    from gradgate.layers.find import map_layers
    from gradgate.layers.selectors import Selection, select

__all__ = ["Group", "LayerMap", "Selection", "Unit", "canonical_name", "map_layers", "named_parameters", "select"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Selection": "gradgate.layers.selectors",
        "map_layers": "gradgate.layers.find",
        "select": "gradgate.layers.selectors",
    },
)
