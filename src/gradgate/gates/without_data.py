"""Gate tensors that have a shape but no data, such as those used to count memory: nothing is computed."""

from __future__ import annotations

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def serves(tensor: Tensor) -> bool:
    """Return True if the tensor has no data."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def apply_(tensor: Tensor, first: int, end: int, scale: float, key: int, offset: int) -> Tensor:
    """Return the tensor; like the back ends for data, allocate nothing."""
    return tensor


def restore_(tensor: Tensor, before: Tensor, first: int, end: int, key: int, offset: int) -> None:
    """Do nothing."""
