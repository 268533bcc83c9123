"""Multiplicative normal noise from the same hash as the gate: a function of the key, not a draw."""

from __future__ import annotations

import torch
from torch import Tensor

from gradgate.gates.reference import BLOCK, CHUNK, block_key, hash_words, segments


def scatter_(tensor: Tensor, *, std: float, key: int, offset: int = 0) -> Tensor:
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
