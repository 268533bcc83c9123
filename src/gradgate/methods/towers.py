"""Find the layers that a method with a ``tower`` works on: those of one tower, or all of the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from gradgate.errors import MethodError, nearest
from gradgate.layers import Group, LayerMap
from gradgate.layers.units import EMBEDDINGS


class OfTower(Protocol):
    """A method that has a tower; empty for the whole model."""

    @property
    def tower(self) -> str: ...

    @property
    def spec(self) -> str: ...


def layers_of(method: OfTower, layers: LayerMap) -> tuple[Group, ...]:
    """Return the layers of the method's tower from the bottom; those of the model if it has no tower.

    Raises:
        MethodError: if the model has no such tower.
    """
    return tuple(group for axis in axes_of(method, layers) for group in axis)


def tower_check(tower: str) -> tuple[bool, str]:
    """Return whether a text can name a tower, and what is expected; whether there is one depends on the model."""
    return not tower or re.fullmatch(r"\w+(\.\w+)*", tower) is not None, "the name of a tower, such as vision"


def axes_of(method: OfTower, layers: LayerMap) -> tuple[tuple[Group, ...], ...]:
    """Return the axes of depth that the method works on: its tower, or each network of the model from the bottom.

    Raises:
        MethodError: if the model has no such tower.
    """
    if not method.tower:
        return layers.axes
    if method.tower not in layers.towers:
        there = (
            f"Its towers are {', '.join(layers.towers)}." if layers.towers else "It has one stack; leave tower= out."
        )
        near = nearest(method.tower, layers.towers)
        raise MethodError(f"{method.spec!r}: {layers.model} has no tower {method.tower!r}.{near} {there}")
    return (layers.towers[method.tower],)


def embeddings_follow(method: OfTower, layers: LayerMap) -> bool:
    """Return whether the embeddings follow the method's layers: if it has no tower, or they belong to that tower."""
    return not method.tower or (EMBEDDINGS in layers and layers[EMBEDDINGS].tower == method.tower)


def bottom_of(axes: Sequence[Sequence[Group]], layers: LayerMap) -> str:
    """Return the name of the layer that the embeddings open with; empty if there are no layers.

    It is the lowest layer of the network that the embeddings belong to. If several networks use them, it is the lowest
    of the longest one, so that they open last where layers open from the top down.
    """
    tower = layers[EMBEDDINGS].tower if EMBEDDINGS in layers else ""
    own = [axis for axis in axes if tower and any(group.tower == tower for group in axis)]
    longest = max(own or axes, key=len, default=())
    return longest[0].layer if longest else ""
