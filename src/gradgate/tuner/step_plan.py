"""Plan one step of an optimizer: what is stepped together, what is copied, what is looked at, and in how many bytes.

The tuner steps by these functions, and :mod:`gradgate.memory` predicts by them, so that a change is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from gradgate.methods.plan import Gate
from gradgate.methods.traits import Watched

CHUNK_BYTES = 2**26
"""The most bytes that a chunk copies, unless a single parameter is larger."""

Member = TypeVar("Member")


def chunks(members: Sequence[Member], copied: Callable[[Member], int]) -> Iterator[list[Member]]:
    """Yield the members that are stepped together, in order; none if there is no member.

    Args:
        members: parameters that a step copies something for.
        copied: returns the bytes of one copy of a member.
    """
    chunk: list[Member] = []
    size = 0
    for member in members:
        size += copied(member)
        if chunk and size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], copied(member)
        chunk.append(member)
    if chunk:
        yield chunk


def representative(opened: Sequence[Member], gated: Sequence[Member], size: Callable[[Member], int]) -> Member | None:
    """Return the gradient that stands for all when a step looks for values that are not finite.

    A loss that is not finite makes every gradient non-finite, so the smallest one will do. Of gated gradients the
    largest is taken: in a small one, the mask may hide every non-finite element.

    Args:
        opened: gradients that pass whole.
        gated: gradients that pass in part; they count only if none passes whole.
        size: returns the number of elements.
    """
    return min(opened, key=size) if opened else max(gated, key=size, default=None)


def look_bytes(elements: int, itemsize: int) -> int:
    """Return the bytes that :func:`torch.isfinite` takes for one gradient: its absolute values and two masks."""
    return elements * (itemsize + 2)


def copy_bytes(elements: int, itemsize: int, *, masked: bool, has_master: bool) -> int:
    """Return the bytes that exist for a parameter during its chunk's step.

    Args:
        elements: of the parameter, or of this process's shard.
        itemsize: bytes of an element of what the optimizer steps.
        masked: whether masked weights get their old values back, of which a copy is kept.
        has_master: whether the optimizer steps a master, which gets its gradient in float32.
    """
    return elements * itemsize * (masked + has_master)


def restore_bytes(elements: int, stepped_itemsize: int, itemsize: int, gate: Gate | None) -> int:
    """Return the temporary bytes of restoring masked weights, in addition to the copy of their old values.

    Args:
        elements: of the parameter, or of this process's shard.
        stepped_itemsize: bytes of an element of what the optimizer steps.
        itemsize: bytes of an element of the parameter.
        gate: of the parameter; None if it has none.
    """
    if gate is not None and gate.momentum:  # the momentum's size, two masks, counts in int32 and one more mask
        return elements * (stepped_itemsize + 7)
    if gate is None or not gate.chosen:
        return 0
    return max(2 * elements, elements + elements * itemsize)  # a mask of bytes, and what is made of it


def watch_bytes(watched: Watched | None, sizes: Sequence[int]) -> tuple[int, int]:
    """Return the bytes that watching keeps over a step, and those that it takes for a moment.

    Args:
        watched: what a method watches; None for nothing.
        sizes: bytes of each gradient or weight that is watched.
    """
    if watched is None or not sizes:
        return 0, 0
    return (0, max(sizes)) if watched == "norm" else (sum(sizes), 2 * max(sizes))
