"""Gate tensors in plain torch: the definition that every other back end matches bit for bit.

Element ``i`` of a tensor passes iff ``first <= h < end``, where ``h`` is the 32-bit hash of ``i`` under
the gate's key (:func:`gradgate.gates.key.hash_at`).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gradgate.gates.key import BLOCK, MULTIPLIER_1, MULTIPLIER_2, WORD, block_key

# Limits the int64 scratch space to 32 MiB per tensor, however large the parameter is.
CHUNK = 2**22


def segments(numel: int, offset: int) -> Iterator[tuple[int, int, int, int]]:
    """Split ``numel`` elements from index ``offset`` on at multiples of 2**32.

    Yields ``(start, stop, block, low)``: elements ``start:stop`` lie in ``block``, the first at low word ``low``.
    """
    start = 0
    while start < numel:
        block, low = divmod(offset + start, BLOCK)
        stop = min(numel, start + BLOCK - low)
        yield start, stop, block, low
        start = stop


def _mix_(words: Tensor) -> Tensor:
    words ^= words >> 16
    words.mul_(MULTIPLIER_1).bitwise_and_(WORD)
    words ^= words >> 15
    words.mul_(MULTIPLIER_2).bitwise_and_(WORD)
    words ^= words >> 16
    return words


def hash_words(low: int, count: int, keys: tuple[int, int], device: torch.device | str) -> Tensor:
    """Return the hashes of ``count`` elements of one block from low word ``low`` on, as int64 in [0, 2**32)."""
    words = torch.arange(low, low + count, dtype=torch.int64, device=device)
    return _mix_(_mix_(words.bitwise_xor_(keys[0])).bitwise_xor_(keys[1]))


def mask(numel: int, first: int, end: int, key: int, offset: int, device: torch.device | str = "cpu") -> Tensor:
    """Return which of ``numel`` elements pass, bool, shape ``(numel,)``."""
    passes = torch.empty(numel, dtype=torch.bool, device=device)
    for start, stop, block, low in segments(numel, offset):
        keys = block_key(key, block)
        for at in range(start, stop, CHUNK):
            till = min(stop, at + CHUNK)
            words = hash_words(low + at - start, till - at, keys, device)
            torch.logical_and(words >= first, words < end, out=passes[at:till])
    return passes


def apply_(tensor: Tensor, first: int, end: int, scale: float, key: int, offset: int) -> Tensor:
    """Multiply elements that pass by ``scale`` and set the rest to zero, in place."""
    passes = mask(tensor.numel(), first, end, key, offset, tensor.device).view(tensor.shape)
    if scale != 1.0:
        tensor.mul_(scale)
    return tensor.masked_fill_(passes.logical_not_(), 0.0)


def restore_(tensor: Tensor, before: Tensor, first: int, end: int, key: int, offset: int) -> Tensor:
    """Reset elements that do not pass to their earlier values, in place."""
    passes = mask(tensor.numel(), first, end, key, offset, tensor.device).view(tensor.shape)
    return tensor.copy_(torch.where(passes, tensor, before))


def multiply_noise_(tensor: Tensor, *, std: float, key: int, offset: int = 0) -> Tensor:
    """Multiply element ``i`` by ``1 + std * z_i`` in place, with ``z_i`` standard normal under the key.

    ``z_i`` is the normal quantile of ``(h_i + 1/2) / 2**32``, computed in float64.
    """
    flat = torch.empty(tensor.numel(), dtype=torch.float64, device=tensor.device)
    for start, stop, block, low in segments(tensor.numel(), offset):
        keys = block_key(key, block)
        for at in range(start, stop, CHUNK):
            till = min(stop, at + CHUNK)
            words = hash_words(low + at - start, till - at, keys, tensor.device)
            flat[at:till] = torch.special.ndtri((words.double() + 0.5) / BLOCK)
    return tensor.mul_((1.0 + std * flat).view(tensor.shape).to(tensor.dtype))
