"""Compare tensors as bits: two that differ only in the sign of a zero or in the kind of NaN are different."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from xxhash import xxh3_128_hexdigest

_CODES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "C64": "complex64",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip
_DTYPES: dict[str, torch.dtype] = {code: getattr(torch, name) for code, name in _CODES.items() if hasattr(torch, name)}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_AT_ONCE = 1 << 24  # elements compared at a time, so that masks stay small


def code_of(dtype: torch.dtype) -> str:
    """Return a dtype's code in safetensors; raise KeyError for one that has none."""
    return {known: code for code, known in _DTYPES.items()}[dtype]


def dtype_of(code: str) -> torch.dtype:
    """Return the dtype of a safetensors code; raise KeyError for one that torch lacks."""
    return _DTYPES[code]


def flat_bits(tensor: Tensor) -> Tensor:
    """Return the elements as a flat tensor of integers of their size; it shares a contiguous tensor's memory."""
    return tensor.detach().reshape(-1).view(_INTEGERS[tensor.element_size()])


def changed_at(tensor: Tensor, base: Tensor, *, cast: bool = False) -> Iterator[Tensor]:
    """Yield the flat indices where the bits of a tensor differ from the base's, in increasing order, in chunks.

    Args:
        tensor: of any shape.
        base: of the same dtype. Only elements that both have are compared; further ones of ``tensor`` differ.
        cast: the base was cast to that dtype. Then its NaN differ too, as processors cast them to different bits.
    """
    common = min(tensor.numel(), base.numel())
    for start, differs in _differences(tensor, base, common, cast):
        yield differs.nonzero().view(-1) + start
    if tensor.numel() > common:
        yield torch.arange(common, tensor.numel())


def count_changed(tensor: Tensor, base: Tensor, *, cast: bool = False) -> int:
    """Count the elements that :func:`changed_at` yields."""
    common = min(tensor.numel(), base.numel())
    if not cast and torch.equal(flat_bits(tensor)[:common], flat_bits(base)[:common]):
        return tensor.numel() - common
    found = _differences(tensor, base, common, cast)
    return sum(int(differs.count_nonzero()) for _, differs in found) + tensor.numel() - common


def _differences(tensor: Tensor, base: Tensor, common: int, cast: bool) -> Iterator[tuple[int, Tensor]]:
    """Yield the start of each chunk of the first ``common`` elements, and which of its elements differ."""
    mine, theirs, values = flat_bits(tensor), flat_bits(base), base.detach().reshape(-1)
    for start in range(0, common, _AT_ONCE):
        part = slice(start, min(start + _AT_ONCE, common))
        differs = mine[part] != theirs[part]
        yield start, differs | values[part].isnan() if cast else differs


def digest_of(tensor: Tensor) -> str:
    """Return the XXH3 digest of a tensor's bytes."""
    data: Any = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return xxh3_128_hexdigest(data)
