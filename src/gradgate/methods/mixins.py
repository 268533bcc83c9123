"""Bases of methods that share an option, or that ``+`` joins to others."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradgate.layers import Unit
from gradgate.methods.base import Method
from gradgate.methods.traits import State, Traits


@dataclass(frozen=True, kw_only=True)
class Modifier(Method):
    """A method that opens everything and changes only how it learns, so that ``+`` joins it to any other method."""


@dataclass(frozen=True, kw_only=True)
class HasStateOption(Method):
    """A method that closes what was open before. Derive from it to give your own method the same option.

    Args:
        state: what happens to the optimizer's state (momentum, moments, their count of steps) of a group when it
            closes. ``keep`` leaves it for when the group opens again, with the past unchanged; ``reset`` sets it to
            zero in place, so that the group starts over and the memory stays allocated; ``drop`` deletes it, which
            frees the memory and starts over as well; ``offload`` moves it to host memory, and back with the same bits
            when the group opens again.
    """

    state: State = "keep"

    @property
    def traits(self) -> Traits:
        return replace(super().traits, state_of_closed=self.state)


@dataclass(frozen=True, kw_only=True)
class HasUnitOption(Method):
    """A method that makes sense for whole layers and for what is inside them. Derive from it for the same option.

    Args:
        unit: what opens and closes as one: a ``layer``, a ``part`` of it such as its attention, or a ``module``.
    """

    unit: Unit = "layer"

    @property
    def traits(self) -> Traits:
        return replace(super().traits, unit=self.unit)
