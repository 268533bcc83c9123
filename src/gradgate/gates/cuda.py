"""Gate contiguous CUDA memory at random, in one pass compiled by Triton. Importing this module needs triton."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from gradgate.gates.key import MULTIPLIER_1, MULTIPLIER_2, block_key
from gradgate.gates.reference import segments

_M1, _M2 = tl.constexpr(MULTIPLIER_1), tl.constexpr(MULTIPLIER_2)
_TYPES = {
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
}
_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
# Elements that a program processes at a time: 16 per thread, so that several wide loads overlap with the hashing.
_BLOCK = 2048
_WARPS = 4
# Elements that one program of a launch for many tensors gates.
_CHUNK = 8 * _BLOCK
_COLUMNS = tl.constexpr(6)
_SCALARS = ("first", "width", "scale_bits")


@triton.jit
def _mix(word):  # type: ignore[no-untyped-def]
    word ^= word >> 16
    word *= _M1
    word ^= word >> 15
    word *= _M2
    return word ^ (word >> 16)


@triton.jit
def _passes(at, low, key_1, key_2, first, width):  # type: ignore[no-untyped-def]
    word = _mix(_mix((low + at.to(tl.uint32)) ^ key_1) ^ key_2)
    return (word - first.to(tl.uint32, bitcast=True)) < width.to(tl.uint32, bitcast=True)


@triton.jit
def _gated(old, at, low, key_1, key_2, first, width, scale_bits):  # type: ignore[no-untyped-def]
    passes = _passes(at, low, key_1, key_2, first, width)
    scale = scale_bits.to(tl.int64).to(tl.float64, bitcast=True)
    # Multiply as torch does: in float32 or wider, rounded once to the tensor's dtype.
    if old.dtype != tl.float64:
        scale = scale.to(tl.float32)
    return tl.where(passes, (old.to(scale.dtype) * scale).to(old.dtype), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _gate_block(  # type: ignore[no-untyped-def]
    values, left, low, key_1, key_2, first, width, scale_bits, block: tl.constexpr
):
    at = tl.arange(0, block)
    if left >= block:  # without a mask, loads and stores are 16 bytes wide for any number of elements
        old = tl.load(values + at)
        tl.store(values + at, _gated(old, at, low, key_1, key_2, first, width, scale_bits))
    else:
        old = tl.load(values + at, mask=at < left)
        tl.store(values + at, _gated(old, at, low, key_1, key_2, first, width, scale_bits), mask=at < left)


@triton.jit(do_not_specialize=("numel", "low", "key_1", "key_2", *_SCALARS))  # type: ignore[untyped-decorator]
def _gate_one(  # type: ignore[no-untyped-def]
    values, numel, low, key_1, key_2, first, width, scale_bits, block: tl.constexpr
):
    start = tl.program_id(0).to(tl.int64) * block
    low = low.to(tl.uint32, bitcast=True) + start.to(tl.uint32)
    key_1 = key_1.to(tl.uint32, bitcast=True)
    key_2 = key_2.to(tl.uint32, bitcast=True)
    _gate_block(values + start, numel - start, low, key_1, key_2, first, width, scale_bits, block)


@triton.jit(do_not_specialize=_SCALARS)  # type: ignore[untyped-decorator]
def _gate_many(  # type: ignore[no-untyped-def]
    table,
    owners,
    first,
    width,
    scale_bits,
    element: tl.constexpr,
    alignment: tl.constexpr,
    chunk: tl.constexpr,
    block: tl.constexpr,
):
    program = tl.program_id(0)
    row = table + tl.load(owners + program) * _COLUMNS
    start = (program - tl.load(row + 5)) * chunk
    values = tl.multiple_of(tl.load(row).to(tl.pointer_type(element)), alignment) + start
    left = tl.load(row + 1) - start
    low = tl.load(row + 2) + start
    key_1 = tl.load(row + 3).to(tl.uint32)
    key_2 = tl.load(row + 4).to(tl.uint32)
    for begin in range(0, tl.minimum(left, chunk), block):
        at = (low + begin).to(tl.uint32)
        _gate_block(values + begin, left - begin, at, key_1, key_2, first, width, scale_bits, block)


@triton.jit(do_not_specialize=("numel", "low", "key_1", "key_2", "first", "width"))  # type: ignore[untyped-decorator]
def _restore(  # type: ignore[no-untyped-def]
    values, before, numel, low, key_1, key_2, first, width, block: tl.constexpr
):
    start = tl.program_id(0).to(tl.int64) * block
    at = tl.arange(0, block)
    inside = at < numel - start
    low = low.to(tl.uint32, bitcast=True) + start.to(tl.uint32)
    key_1 = key_1.to(tl.uint32, bitcast=True)
    key_2 = key_2.to(tl.uint32, bitcast=True)
    stopped = inside & (_passes(at, low, key_1, key_2, first, width) == 0)
    old = tl.load(before + start + at, mask=stopped)
    tl.store(values + start + at, old, mask=stopped)


def serves(tensor: Tensor) -> bool:
    """Return True if this back end can gate the tensor, or a contiguous copy of it."""
    return tensor.is_cuda and tensor.dtype in _TYPES


def apply_(tensor: Tensor, first: int, end: int, scale: float, key: int, offset: int) -> Tensor:
    """Do as ``reference.apply_``, for a contiguous tensor and a window that is neither empty nor full."""
    flat = tensor.detach().view(-1)
    with _on(tensor.device):
        for start, stop, block, low in segments(flat.numel(), offset):
            words = (_signed(word) for word in (low, *block_key(key, block)))
            _gate_one[(triton.cdiv(stop - start, _BLOCK),)](
                flat[start:stop], stop - start, *words, *_scalars(first, end, scale), block=_BLOCK, num_warps=_WARPS
            )
    return tensor


def restore_(tensor: Tensor, before: Tensor, first: int, end: int, key: int, offset: int) -> Tensor:
    """Do as ``reference.restore_``, for contiguous tensors."""
    # View them as integers, whose bits no load or store changes.
    values, old = (t.detach().view(-1).view(_WORDS[t.element_size()]) for t in (tensor, before))
    with _on(tensor.device):
        for start, stop, block, low in segments(values.numel(), offset):
            words = (_signed(word) for word in (low, *block_key(key, block), first, end - first))
            grid = (triton.cdiv(stop - start, _BLOCK),)
            _restore[grid](values[start:stop], old[start:stop], stop - start, *words, block=_BLOCK, num_warps=_WARPS)
    return tensor


def apply_each_(parts: Iterable[tuple[Tensor, int, int]], first: int, end: int, scale: float) -> None:
    """Gate contiguous tensors, each with its key and offset, in one launch per dtype and device."""
    kinds: dict[tuple[torch.device, torch.dtype], list[tuple[int, int, int, int, int]]] = {}
    for tensor, key, offset in parts:
        rows = kinds.setdefault((tensor.device, tensor.dtype), [])
        for start, stop, block, low in segments(tensor.numel(), offset):
            address = tensor.data_ptr() + start * tensor.element_size()
            rows.append((address, stop - start, low, *block_key(key, block)))
    for (device, dtype), rows in kinds.items():
        if rows:
            _launch(np.array(rows, dtype=np.int64), device, dtype, _scalars(first, end, scale))


def _launch(rows: np.ndarray[Any, np.dtype[np.int64]], device: torch.device, dtype: torch.dtype, scalars: Any) -> None:
    # A known alignment of 16 lets Triton make loads and stores 16 bytes wide.
    alignment = dtype.itemsize if (rows[:, 0] % 16).any() else 16
    programs = -(-rows[:, 1] // _CHUNK)
    ends = programs.cumsum()
    table = np.column_stack([rows, ends - programs])
    owners = np.repeat(np.arange(len(rows)), programs)
    # Pin it, so that the one copy to the device is asynchronous; torch keeps the memory until the copy is done.
    host = torch.empty(table.size + owners.size, dtype=torch.int64, pin_memory=device.type == "cuda")
    np.concatenate([table.ravel(), owners], out=host.numpy())
    with _on(device):
        words = host.to(device, non_blocking=True)
        _gate_many[(len(owners),)](
            words,
            words[table.size :],
            *scalars,
            element=_TYPES[dtype],
            alignment=alignment,
            chunk=_CHUNK,
            block=_BLOCK,
            num_warps=_WARPS,
        )


def _on(device: torch.device) -> torch.cuda.device:
    return torch.cuda.device(device if device.type == "cuda" else -1)  # -1 changes nothing: Triton's interpreter


def _scalars(first: int, end: int, scale: float) -> Iterable[int]:
    # A launch would round a float to float32, so pass the scale as the bits of a float64.
    return _signed(first), _signed(end - first), struct.unpack("<q", struct.pack("<d", scale))[0]


def _signed(word: int) -> int:
    """Return the int32 with the same bits: Triton then compiles the kernel once for all values."""
    return (word ^ 1 << 31) - (1 << 31)
