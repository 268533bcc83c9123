"""Compute the same bits in each repetition, for comparisons that must be exact."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@contextmanager
def deterministic() -> Iterator[None]:
    """Use deterministic kernels in the body. cuBLAS reads its setting when a process first multiplies matrices."""
    old, before = os.environ.get(_WORKSPACE), torch.are_deterministic_algorithms_enabled()
    os.environ[_WORKSPACE] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.use_deterministic_algorithms(before)
        if old is None:
            del os.environ[_WORKSPACE]
        else:
            os.environ[_WORKSPACE] = old


def differing(one: Iterable[Tensor], other: Iterable[Tensor]) -> int:
    """Count the elements whose bits differ between tensors in pairs."""
    return sum(int((_bits(left) != _bits(right).to(left.device)).sum()) for left, right in zip(one, other, strict=True))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(_WORDS[tensor.element_size()])
