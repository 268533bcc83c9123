"""Whether tensors are the same bit for bit, and models on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Equal types, shapes and bits: NaN is itself, and -0.0 is not 0.0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


def assert_same_bits(ones: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> None:
    assert ones.keys() == others.keys()
    for name, tensor in ones.items():
        assert same_bits(tensor, others[name]), name


def on_disk(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a model's folder."""
    files = sorted(folder.glob("*.safetensors"))
    assert files
    return {name: tensor for file in files for name, tensor in load_file(file).items()}
