"""Describe which weights a plan opens, as far as that affects memory."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from torch import nn

from gradgate.layers import LayerMap
from gradgate.layers.selectors import Selection
from gradgate.memory.shrunken import LayerStack
from gradgate.methods.plan import Gate, Plan
from gradgate.tuner.gating import Gating

_NUMBERING = re.compile("idx|index|layer_id|layer_number")


def selection_within(selection: Selection | None, layers: LayerMap) -> Selection | None:
    """Return the part of a model's selection that is in a map with fewer layers."""
    if selection is None:
        return None
    names = {name for group in layers for name in group.parameter_names}
    rows = {name: rows for name, rows in selection.rows.items() if name in names}
    return Selection(selection.text, rows, {name: selection.shapes[name] for name in rows})


class OpenPattern:
    """The weights that a plan opens on the complete model.

    Args:
        plan: one gate for each group.
        gating: of the complete model.
        layers: its map, at the method's unit.

    Attributes:
        opened: canonical names of the parameters that require a gradient.
    """

    def __init__(self, plan: Plan, gating: Gating, layers: LayerMap) -> None:
        self.plan = plan
        self.opened = frozenset(gating.opened(plan))
        self.dropped = frozenset(
            name for name, gate in gating.gated(lambda gate: gate.dropped, plan) if name not in self.opened
        )
        self._gating, self._layers = gating, layers
        gating.plan = plan
        self._codes = {
            name: _code(gate, name in self.opened)
            for names in gating.groups.values()
            for name in names
            if (gate := gating.gate_of(name)) is not None
        }
        by_layer = layers.at("layer")
        self._open = {group.name: any(n in self.opened for n in group.parameter_names) for group in by_layer}

    def around(self, stacks: list[LayerStack]) -> Hashable:
        """Return a key that is equal for equal passes outside of the stacks."""
        inside = {group for stack in stacks for group in stack.layers}
        outside = tuple(self._gates(name) for name in self._open if name not in inside)
        return "around", outside, tuple(any(self._open[g] for g in stack.layers) for stack in stacks)

    def kinds(self, stacks: list[LayerStack], forms: Mapping[str, Hashable]) -> dict[str, Hashable]:
        """Return, for the group of each layer, a key that is equal for equal passes through it.

        Args:
            stacks: the layers that can be left out.
            forms: group to the same key without any plan.
        """
        around = self.around(stacks)
        before, opened = {}, False
        for name, is_open in self._open.items():
            before[name] = opened
            opened = opened or is_open
        keys: dict[str, Hashable] = {}
        for stack in stacks:
            groups = list(stack.layers)
            lowest = self._gates(groups[0])
            for group in groups:
                place = (group == groups[0], group == groups[-1])
                # The bottom layer computes what all layers of its stack share, such as T5's position biases.
                shared = around if len(stacks) > 1 or any(place) else None
                keys[group] = (stack.path, place, forms[group], self._gates(group), before[group], any(lowest), shared)
        return keys

    def _gates(self, group: str) -> tuple[str, ...]:
        """Return the gates of a group's parameters, in their order."""
        return tuple(self._codes.get(name, "") for name in self._layers.at("layer")[group].parameter_names)


def _code(gate: Gate, opened: bool) -> str:
    kind = "closed" if gate.closed else "chosen" if gate.chosen else "sparse" if gate.sparse else "open"
    return f"{kind} {opened}" if opened or not gate.closed else ""


def form(layer: nn.Module) -> Hashable:
    """Return a key of a layer: its classes, shapes, and settings such as the kind of attention."""
    return tuple(_features(layer))


def _features(layer: nn.Module) -> Iterator[Any]:
    for module in layer.modules():
        yield type(module).__name__
        yield from ((name, p.shape, p.dtype, p.requires_grad) for name, p in module.named_parameters(recurse=False))
        settings = ((name, value) for name, value in vars(module).items() if isinstance(value, int | str | float))
        yield from (setting for setting in settings if setting[0] != "training" and not _NUMBERING.search(setting[0]))
