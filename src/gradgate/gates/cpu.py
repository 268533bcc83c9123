"""The random gate on contiguous CPU memory, in one pass, compiled by numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradgate.gates.reference import MULTIPLIER_1, MULTIPLIER_2, block_key, segments

_M1, _M2 = np.uint32(MULTIPLIER_1), np.uint32(MULTIPLIER_2)
_S15, _S16 = np.uint32(15), np.uint32(16)
_AS_WORDS = {torch.bfloat16: torch.int16, torch.float16: torch.int16}


# The casts keep every product in 32 bits, which is what lets LLVM use full vector registers.
@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _mix(word: np.uint32) -> np.uint32:
    word = np.uint32(word ^ (word >> _S16))
    word = np.uint32(word * _M1)
    word = np.uint32(word ^ (word >> _S15))
    word = np.uint32(word * _M2)
    word = np.uint32(word ^ (word >> _S16))
    return word  # noqa: RET504 - numba takes the type from the assignment


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _gate(
    values: NDArray[Any],
    low: np.uint32,
    key_1: np.uint32,
    key_2: np.uint32,
    first: np.uint32,
    width: np.uint32,
    scale: Any,
) -> None:
    zero = values.dtype.type(0)
    for i in range(values.size):
        word = _mix(np.uint32(_mix(np.uint32(np.uint32(low + np.uint32(i)) ^ key_1)) ^ key_2))
        values[i] = values[i] * scale if np.uint32(word - first) < width else zero


def serves(tensor: Tensor) -> bool:
    """Whether this back end can gate the tensor."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16)
        and tensor.is_contiguous()
    )


def apply_(tensor: Tensor, first: int, end: int, scale: float, key: int, offset: int) -> Tensor:
    """As ``reference.apply_``, for windows that are neither empty nor whole."""
    words = _AS_WORDS.get(tensor.dtype)
    if words is not None and scale != 1.0:
        tensor.mul_(scale)
        scale = 1.0
    values = tensor.detach().view(-1).view(words or tensor.dtype).numpy()
    factor = values.dtype.type(scale)
    for start, stop, block, low in segments(values.size, offset):
        round_1, round_2 = block_key(key, block)
        _gate(
            values[start:stop],
            np.uint32(low),
            np.uint32(round_1),
            np.uint32(round_2),
            np.uint32(first),
            np.uint32(end - first),
            factor,
        )
    return tensor
