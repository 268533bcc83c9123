"""Mask single elements of a parameter: in its gradient, in its weights after a step, and in an optimizer's states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from gradgate import gates
from gradgate.distributed.shards import local, whole
from gradgate.errors import RunError
from gradgate.measure.selection import largest, unpack
from gradgate.methods.plan import Gate


class ElementMasks:
    """The elements that gates mask in the parameters of a model, and the rows that never open.

    Args:
        parameters: canonical name to parameter.
        rows: name to the ranges of rows that may open, of the parameters with rows that may not.
        seed: of the masks.

    Attributes:
        chosen: name to mask of the elements that pass gates with ``chosen``; one bit each, see :func:`unpack`.
    """

    def __init__(
        self, parameters: Mapping[str, Parameter], rows: Mapping[str, Sequence[tuple[int, int]]], seed: int
    ) -> None:
        self._parameters, self._rows, self._seed = parameters, rows, seed
        self.chosen: dict[str, Tensor] = {}

    def load(self, masks: Mapping[str, Tensor]) -> None:
        """Set the masks of the elements that pass gates with ``chosen``.

        Raises:
            RunError: if they belong to other parameters.
        """
        for name, mask in masks.items():
            parameter = self._parameters.get(name)
            bytes_of_bits = None if parameter is None else (-(-parameter.numel() // 8),)
            if mask.dtype != torch.uint8 or tuple(mask.shape) != bytes_of_bits:
                raise RunError(
                    f"The saved choice of weights in {name} does not fit this model. Load the model that the state "
                    "was saved with."
                )
        self.chosen = dict(masks)

    def key(self, name: str, gate: Gate) -> int:
        """Return the key of the mask that a gate draws for a parameter."""
        return gates.key(seed=self._seed, stream=gate.stream, name=name, draw=gate.draw)

    def gate(self, name: str, gate: Gate, tensor: Tensor) -> Tensor:
        """Gate a gradient, or this process's shard of it, in place."""
        for rows in self._closed_rows(name, tensor):
            rows.zero_()
        if not gate.masks_gradients:
            return tensor
        if gate.chosen:
            return tensor.mul_(gate.scale).masked_fill_(self._chosen(name).logical_not_(), 0.0)
        key, (_, offset) = self.key(name, gate), local(self._parameters[name])
        if gate.noise:
            gates.multiply_noise_(tensor, std=gate.noise, key=key, offset=offset)
        return gates.apply_(tensor, lo=gate.lo, hi=gate.hi, scale=gate.scale, key=key, offset=offset)

    def zero(self, name: str, gate: Gate, tensor: Tensor) -> None:
        """Zero the elements that a gate masks in a tensor with the shape of this process's shard of a parameter."""
        if gate.chosen:
            tensor.masked_fill_(self._chosen(name).logical_not_(), 0)
        else:
            offset = local(self._parameters[name])[1]
            gates.apply_(tensor, lo=gate.lo, hi=gate.hi, scale=1.0, key=self.key(name, gate), offset=offset)

    def restore(self, name: str, gate: Gate, optimizer: torch.optim.Optimizer, stepped: Tensor, before: Tensor) -> None:
        """Put the values of masked elements back as they were before a step.

        Args:
            name: of the parameter.
            gate: that was in force in the step.
            optimizer: that stepped.
            stepped: what it stepped: the parameter or its master.
            before: a copy of the local shard of that, from before the step.
        """
        shard, offset = local(stepped)
        for rows, old in zip(self._closed_rows(name, shard), self._closed_rows(name, before), strict=True):
            rows.copy_(old)
        if not gate.masks_weights:
            return
        if gate.chosen:
            shard.copy_(torch.where(self._chosen(name), shard, before))
        elif gate.momentum:
            shard.copy_(torch.where(with_largest_momentum(optimizer, stepped, gate.share), shard, before))
        else:
            gates.restore_(shard, before, lo=gate.lo, hi=gate.hi, key=self.key(name, gate), offset=offset)

    def _closed_rows(self, name: str, tensor: Tensor) -> list[Tensor]:
        """Return views of the rows that never open, in the local shard of a parameter or its gradient."""
        if name not in self._rows:
            return []
        parameter = self._parameters[name]
        _, offset = local(parameter)
        # Shards are split along rows, so the flat offset is a whole number of them.
        count, first = len(tensor), offset // max(1, parameter.shape[1:].numel())
        # Edges alternate: what lies between the open ranges, clipped to this shard, is closed.
        edges = [first, *(edge for pair in self._rows[name] for edge in pair), first + count]
        pairs = [(max(edges[i], first), min(edges[i + 1], first + count)) for i in range(0, len(edges), 2)]
        return [tensor[start - first : stop - first] for start, stop in pairs if start < stop]

    def _chosen(self, name: str) -> Tensor:
        """Return a bool tensor, in the shape of the local shard: True for each chosen element."""
        parameter = self._parameters[name]
        shard, offset = local(parameter)
        chosen = unpack(self.chosen[name].to(shard.device), parameter.numel())
        return chosen[offset : offset + shard.numel()].view(shard.shape)


def with_largest_momentum(optimizer: torch.optim.Optimizer, stepped: Tensor, share: float) -> Tensor:
    """Return which elements have the largest first moment in size, after the step that took up its gradient.

    Args:
        optimizer: Adam or AdamW.
        stepped: what it stepped, with a state; all processes that hold a part of it must ask.
        share: of all elements, in (0, 1]; rounded down, at least one. Ties go to the first elements.

    Returns:
        A bool tensor, in the shape of the local shard.
    """
    moment = whole(optimizer.state[stepped]["exp_avg"])
    passing = largest(moment.abs(), max(1, int(share * moment.numel())))
    shard, offset = local(stepped)
    return passing.flatten()[offset : offset + shard.numel()].view(shard.shape)
