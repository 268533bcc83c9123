"""Gate tensors, each with the back end for its memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from gradgate.gates import cpu, reference, without_data
from gradgate.gates.key import BLOCK, window


def apply_(tensor: Tensor, *, lo: float, hi: float, key: int, scale: float = 1.0, offset: int = 0) -> Tensor:
    """Gate a tensor in place: multiply elements that pass by ``scale``, set the rest to zero.

    Args:
        tensor: floating point, any shape and strides; elements count in row-major order.
        lo, hi: the window in [0, 1]; a share ``hi - lo`` of the elements passes.
        key: from :func:`gradgate.gates.key`.
        scale: factor on elements that pass, rounded as ``tensor.mul_(scale)`` rounds.
        offset: index of the first element in the full tensor, for shards.

    Returns:
        The same tensor.

    Raises:
        ValueError: if the window does not lie in [0, 1], or ``lo`` is above ``hi``.
    """
    first, end = window(lo, hi)
    if end - first == BLOCK:
        return tensor if scale == 1.0 else tensor.mul_(scale)
    if end == first:
        return tensor.zero_()
    back_end = _back_end(tensor)
    if back_end is reference or tensor.is_contiguous():
        back_end.apply_(tensor, first, end, scale, key, offset)
    else:  # compiled back ends need contiguous memory, where elements count in row-major order
        tensor.detach().copy_(back_end.apply_(tensor.detach().contiguous(), first, end, scale, key, offset))
    return tensor


def apply_each_(
    tensors: Sequence[Tensor],
    *,
    lo: float,
    hi: float,
    keys: Sequence[int],
    scale: float = 1.0,
    offsets: Sequence[int] | None = None,
) -> None:
    """Gate many tensors in place under one window, each as :func:`apply_` does under its own key.

    On CUDA, the contiguous tensors of one dtype take one kernel launch and one asynchronous copy of a few kilobytes
    to the device.

    Args:
        tensors: as for :func:`apply_`; dtypes, devices and shapes may differ. None may overlap another.
        lo, hi, scale: as for :func:`apply_`, for all tensors.
        keys: one per tensor.
        offsets: one per tensor; zeros by default.

    Raises:
        ValueError: for a window as :func:`apply_`, or if there is not one key and one offset per tensor.
    """
    offsets = [0] * len(tensors) if offsets is None else offsets
    if not len(tensors) == len(keys) == len(offsets):
        raise ValueError(
            f"Each tensor needs one key and one offset; got {len(tensors)} tensors, {len(keys)} keys and "
            f"{len(offsets)} offsets."
        )
    first, end = window(lo, hi)
    sparse = 0 < end - first < BLOCK
    together = []
    for tensor, its_key, offset in zip(tensors, keys, offsets, strict=True):
        if sparse and tensor.is_cuda and tensor.is_contiguous() and _back_end(tensor) is _cuda():
            together.append((tensor, its_key, offset))
        else:
            apply_(tensor, lo=lo, hi=hi, key=its_key, scale=scale, offset=offset)
    if together and (cuda := _cuda()):
        cuda.apply_each_(together, first, end, scale)


def restore_(tensor: Tensor, before: Tensor, *, lo: float, hi: float, key: int, offset: int = 0) -> Tensor:
    """Reset the elements that :func:`apply_` would set to zero to their earlier values, in place, bit for bit.

    Args:
        tensor: as for :func:`apply_`.
        before: the earlier values, of the same shape, dtype and device.
        lo, hi, key, offset: as for :func:`apply_`.

    Returns:
        The same tensor.

    Raises:
        ValueError: for a window as :func:`apply_`, or if the tensors differ in shape, dtype or device.
    """
    if (tensor.shape, tensor.dtype, tensor.device) != (before.shape, before.dtype, before.device):
        raise ValueError(
            f"The tensor and its earlier values must have one shape, dtype and device; got {tuple(tensor.shape)} "
            f"{tensor.dtype} on {tensor.device} and {tuple(before.shape)} {before.dtype} on {before.device}."
        )
    first, end = window(lo, hi)
    if end - first == BLOCK:
        return tensor
    back_end = _back_end(tensor) if tensor.is_contiguous() and before.is_contiguous() else reference
    with torch.no_grad():
        if end == first:
            return tensor.copy_(before)
        back_end.restore_(tensor, before, first, end, key, offset)
    return tensor


def mask(numel: int, *, lo: float, hi: float, key: int, offset: int = 0) -> Tensor:
    """Return which elements :func:`apply_` lets pass: bool, shape ``(numel,)``, on the CPU."""
    return reference.mask(numel, *window(lo, hi), key, offset)


def _back_end(tensor: Tensor) -> ModuleType:
    cuda = _cuda() if tensor.is_cuda else None
    for back_end in (without_data, cpu, cuda):
        if back_end is not None and back_end.serves(tensor):
            return back_end
    return reference


@cache
def _cuda() -> ModuleType | None:
    """Return the Triton back end, or None without triton, which comes with CUDA builds of torch."""
    try:
        from gradgate.gates import cuda
    except ImportError:
        return None
    return cuda
