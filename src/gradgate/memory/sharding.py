"""Compute the sizes in one FSDP2 process: its rows of every parameter, and each layer gathered while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch.nn import Parameter

from gradgate.layers import LayerMap
from gradgate.memory.passes import Segment


class Sharding:
    """Computes the sizes of parameters in one of several processes; with a single process, nothing is sharded.

    A layer is gathered for its forward and its backward pass, and the next one is prefetched meanwhile. Parameters
    outside of the layers stay gathered from the forward to the end of the backward pass. Gradients of a layer are
    complete until they are reduced at the end of its backward pass.

    Args:
        parameters: by canonical name.
        layers: their map, with the layer as unit.
        count: number of processes.
    """

    def __init__(self, parameters: Mapping[str, Parameter], layers: LayerMap, count: int) -> None:
        self._parameters, self._count = parameters, count
        sizes = {group.name: sum(parameters[n].nbytes for n in group.parameter_names) for group in layers}
        within = {group.name for group in layers.layers if group.stack}
        self._root = sum(size for name, size in sizes.items() if name not in within) if count > 1 else 0
        order = [name for name in sizes if name in within]
        neighbours = {name: (order[max(0, i - 1)], order[min(len(order) - 1, i + 1)]) for i, name in enumerate(order)}
        self._gathered = {
            ("forward", name): sizes[name] + (sizes[above] if above != name else 0)
            for name, (_, above) in neighbours.items()
        } | {
            ("backward", name): sizes[name] + (sizes[below] if below != name else 0)
            for name, (below, _) in neighbours.items()
        }

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one shard of a parameter."""
        shape = tuple(self._parameters[name].shape)
        return (-(-shape[0] // self._count), *shape[1:]) if shape else shape

    def elements(self, name: str) -> int:
        """Return the number of elements in one shard of a parameter."""
        if self._count == 1:
            return self._parameters[name].numel()
        shape = self.shape(name)
        rows = self._parameters[name].shape[0] if shape else 1
        return shape[0] * (self._parameters[name].numel() // max(1, rows)) if shape else 1

    def nbytes(self, name: str) -> int:
        """Return the size of one shard of a parameter, in bytes."""
        return self.elements(name) * self._parameters[name].element_size()

    def bytes(self, names: Iterable[str]) -> int:
        """Return the size of the shards of several parameters, in bytes."""
        return sum(self.nbytes(name) for name in names)

    def reduced(self, size: int) -> int:
        """Return the bytes of gradients that one process keeps after they are reduced."""
        return -(-size // self._count)

    def of_segment(self, segment: Segment) -> Segment:
        """Return a segment with the sizes of one process; gradients outside of layers stay complete to the end."""
        if self._count == 1:
            return segment
        gathered = self._root + self._gathered.get((segment.at, segment.group), 0)
        gradients = self.reduced(segment.gradients) if segment.group else segment.gradients
        return segment._replace(
            delta=segment.delta - segment.gradients + gradients, peak=segment.peak + gathered, gradients=gradients
        )
