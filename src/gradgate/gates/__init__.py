"""The random gate: one definition of which elements pass, one back end for each kind of memory.

Element ``i`` (its index in the full, unsharded tensor) passes iff ``lo <= hash32(key, i) / 2**32 < hi``. A mask
is thus a function of its key and needs no memory of its own.
"""

from __future__ import annotations

from torch import Tensor

from gradgate.gates import cpu, reference
from gradgate.gates.key import key, window
from gradgate.gates.noise import scatter_

__all__ = ["apply_", "key", "mask", "scatter_", "uniform"]


def apply_(tensor: Tensor, *, lo: float, hi: float, key: int, scale: float = 1.0, offset: int = 0) -> Tensor:
    """Gate a tensor in place: what passes is multiplied by ``scale``, the rest becomes zero.

    Args:
        tensor: floating point, any shape; elements count in row-major order.
        lo, hi: the window in [0, 1]; a share ``hi - lo`` of the elements passes.
        key: from :func:`key`.
        scale: factor on what passes.
        offset: index of the first element in the full tensor, for shards.

    Returns:
        The same tensor.

    Raises:
        ValueError: if the window does not lie in [0, 1].
    """
    first, end = window(lo, hi)
    if end - first == reference.BLOCK:
        return tensor if scale == 1.0 else tensor.mul_(scale)
    if end == first:
        return tensor.zero_()
    if cpu.serves(tensor):
        return cpu.apply_(tensor, first, end, scale, key, offset)
    return reference.apply_(tensor, first, end, scale, key, offset)


def mask(numel: int, *, lo: float, hi: float, key: int, offset: int = 0) -> Tensor:
    """The decisions of :func:`apply_`, to look at: bool, shape ``(numel,)``, on the CPU."""
    return reference.mask(numel, *window(lo, hi), key, offset)


def uniform(key: int, index: int = 0) -> float:
    """One number in [0, 1) under a key: the draw for something that passes or not as a whole."""
    return reference.hash_at(key, index) / 2**32
