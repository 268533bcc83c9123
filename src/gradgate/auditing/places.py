"""Say where in a model a parameter is: by the layer map, or by the names of modules."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradgate.auditing.records import ParameterRecord
from gradgate.layers.map import LayerMap

_BELOW = 2  # names of modules that a group keeps


def place_parameters(records: Iterable[ParameterRecord], layers: LayerMap) -> None:
    """Set group, tower and part of each record whose parameter the layer map has."""
    groups = {name: each for each in layers for name in each.parameter_names}
    for record in records:
        if record.name in groups:
            group = groups[record.name]
            record.group, record.tower = group.name, group.tower
            record.part = layers.weights[record.name].part if record.name in layers.weights else ""


def module_group(name: str) -> str:
    """Return the path of the module that groups a parameter: up to its first number, else its first modules."""
    path = name.split(".")[:-1]
    number = next((place for place, word in enumerate(path) if re.fullmatch("[0-9]+", word)), None)
    end = number + 1 if number is not None else _BELOW
    return ".".join(path[:end]) or "(model)"
