"""Gate contiguous CPU memory at random, with kernels compiled by numba."""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import binding, ir
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from gradgate.gates.key import MULTIPLIER_1, MULTIPLIER_2, block_key
from gradgate.gates.reference import segments

_M1, _M2 = np.uint32(MULTIPLIER_1), np.uint32(MULTIPLIER_2)
_S15, _S16 = np.uint32(15), np.uint32(16)
_ONE, _HALF_STEP = np.uint32(1), np.uint32(0x7FFF)
_HALF = (torch.bfloat16, torch.float16)
_WORDS = {2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
# One thread finishes fewer elements before a second one has started.
_PART = 2**20


def _compiled(function: Callable[..., Any]) -> Any:
    """Return a kernel that runs without the interpreter's lock; it is kept on disk if a folder can be written."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # neither the package nor the home folder
        return numba.njit(nogil=True)(function)


# The casts keep every step in 32 bits, for 16-bit elements too, which is what lets LLVM use full vector registers.
@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _folded(word: np.uint32) -> np.uint32:
    word = np.uint32(word ^ (word >> _S16))
    return word  # noqa: RET504 - numba takes the type from the assignment


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _multiplied(word: np.uint32) -> np.uint32:
    word = np.uint32(word * _M1)
    word = np.uint32(word ^ (word >> _S15))
    word = np.uint32(word * _M2)
    return word  # noqa: RET504 - numba takes the type from the assignment


# Folding is linear in XOR and its own inverse. So the fold that ends the first round and the one that begins the second
# cancel, except for the fold of the key, which is the same for all elements and computed once in `_over_segments`.
@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _passes(i: int, low: np.uint32, key_1: np.uint32, key_2: np.uint32, first: np.uint32, width: np.uint32) -> Any:
    word = _multiplied(np.uint32(_folded(np.uint32(low + np.uint32(i))) ^ key_1))
    word = _folded(_multiplied(np.uint32(word ^ key_2)))
    return np.uint32(word - first) < width


@_compiled
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
        values[i] = values[i] * scale if _passes(i, low, key_1, key_2, first, width) else zero


@_compiled
def _gate_half(
    values: NDArray[np.uint16],
    low: np.uint32,
    key_1: np.uint32,
    key_2: np.uint32,
    first: np.uint32,
    width: np.uint32,
) -> None:
    for i in range(values.size):
        # A product, because LLVM does not vectorise a choice between 16-bit numbers.
        values[i] = np.uint16(np.uint32(values[i]) * np.uint32(_passes(i, low, key_1, key_2, first, width)))


@_compiled
def _gate_bfloat16(
    values: NDArray[np.uint16],
    low: np.uint32,
    key_1: np.uint32,
    key_2: np.uint32,
    first: np.uint32,
    width: np.uint32,
    scale: np.float32,
) -> None:
    for i in range(values.size):
        # A bfloat16 is the upper half of a float32. The product is rounded to the nearest, and to even between two.
        product = np.float32(np.uint32(np.uint32(values[i]) << _S16).view(np.float32) * scale)
        word = np.uint32(product.view(np.uint32))
        word = np.uint32(np.uint32(word + _HALF_STEP + np.uint32(np.uint32(word >> _S16) & _ONE)) >> _S16)
        values[i] = np.uint16(word * np.uint32(_passes(i, low, key_1, key_2, first, width)))


@intrinsic  # type: ignore[untyped-decorator]
def _float16_product(context: Any, word: Any, scale: Any) -> Any:
    """Return the bits of a float16 times a float32, rounded once. Numba has no float16; LLVM and the CPU do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())
        product = builder.fptrunc(builder.fmul(wide, arguments[1]), ir.HalfType())
        return builder.bitcast(product, ir.IntType(16))

    return numba.uint16(numba.uint16, numba.float32), generate


@_compiled
def _gate_float16(
    values: NDArray[np.uint16],
    low: np.uint32,
    key_1: np.uint32,
    key_2: np.uint32,
    first: np.uint32,
    width: np.uint32,
    scale: np.float32,
) -> None:
    for i in range(values.size):
        word = np.uint32(_float16_product(values[i], scale))
        values[i] = np.uint16(word * np.uint32(_passes(i, low, key_1, key_2, first, width)))


@cache
def _has_float16() -> bool:
    """Return True if the CPU converts float16 itself; otherwise LLVM calls a function that numba lacks."""
    return platform.machine() in ("aarch64", "arm64") or bool(binding.get_host_cpu_features().get("f16c"))


@_compiled
def _restore(
    values: NDArray[Any],
    before: NDArray[Any],
    low: np.uint32,
    key_1: np.uint32,
    key_2: np.uint32,
    first: np.uint32,
    width: np.uint32,
) -> None:
    for i in range(values.size):
        values[i] = values[i] if _passes(i, low, key_1, key_2, first, width) else before[i]


def serves(tensor: Tensor) -> bool:
    """Return True if this back end can gate the tensor, or a contiguous copy of it."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64, *_HALF)


def apply_(tensor: Tensor, first: int, end: int, scale: float, key: int, offset: int) -> Tensor:
    """Do as ``reference.apply_``, for a contiguous tensor and a window that is neither empty nor full."""
    half = tensor.dtype in _HALF
    if tensor.dtype == torch.float16 and scale != 1.0 and not _has_float16():
        tensor.mul_(scale)
        scale = 1.0
    values = tensor.detach().view(-1).view(torch.uint16 if half else tensor.dtype).numpy()

    def gate(part: slice, words: list[np.uint32]) -> None:
        if half and scale == 1.0:
            _gate_half(values[part], *words)
        elif half:
            kernel = _gate_float16 if tensor.dtype == torch.float16 else _gate_bfloat16
            kernel(values[part], *words, np.float32(scale))
        else:
            _gate(values[part], *words, values.dtype.type(scale))

    _over_parts(gate, values.size, first, end, key, offset)
    return tensor


def restore_(tensor: Tensor, before: Tensor, first: int, end: int, key: int, offset: int) -> Tensor:
    """Do as ``reference.restore_``, for contiguous tensors."""
    kind = _WORDS[tensor.element_size()]
    values, old = (t.detach().view(-1).view(kind).numpy() for t in (tensor, before))

    def restore(part: slice, words: list[np.uint32]) -> None:
        _restore(values[part], old[part], *words)

    _over_parts(restore, values.size, first, end, key, offset)
    return tensor


def _over_parts(
    work: Callable[[slice, list[np.uint32]], None], numel: int, first: int, end: int, key: int, offset: int
) -> None:
    """Run the work on slices of the elements, each with its words for the kernels, on as many threads as torch uses."""
    if numel < 2 * _PART:
        _over_segments(work, 0, numel, first, end, key, offset)
        return
    size = -(-numel // max(1, min(torch.get_num_threads(), numel // _PART)))

    def one(begin: int) -> None:
        _over_segments(work, begin, min(numel, begin + size), first, end, key, offset + begin)

    begins = range(0, numel, size)
    deque(_pool(os.getpid(), len(begins)).map(one, begins), maxlen=0)


def _over_segments(
    work: Callable[[slice, list[np.uint32]], None], begin: int, till: int, first: int, end: int, key: int, offset: int
) -> None:
    for start, stop, block, low in segments(till - begin, offset):
        folded = [word ^ (word >> 16) for word in block_key(key, block)]
        words = [np.uint32(word) for word in (low, *folded, first, end - first)]
        work(slice(begin + start, begin + stop), words)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of this process; the process id is in the cache's key as a fork inherits no threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gradgate-gate")
