"""Compare a forward pass from stored states with a full one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_NOT_COMPARED = ("past_key_values", "hidden_states", "attentions")


def tolerance(computed: torch.dtype, stored: torch.dtype) -> float:
    """Return the largest allowed difference, relative to the largest value: sums differ in the order of terms."""
    exact = {torch.float32: 5e-5, torch.float64: 1e-9}
    if computed == torch.float32 and torch.cuda.is_available() and torch.get_float32_matmul_precision() != "highest":
        return 1e-2
    return max(exact.get(computed, 4e-2), exact.get(stored, 4e-2))


def agree(one: Any, other: Any, real: Tensor, allowed: float) -> bool:
    """Return True if two outputs of a model agree in everything that a training uses.

    Args:
        real: True at tokens, False at padding, shape (rows, tokens). If the model has computed a loss, its output for
            padding is not compared.
        allowed: see :func:`tolerance`.
    """
    mine, theirs = _tensors(one), _tensors(other)
    if mine.keys() != theirs.keys():
        return False
    for name, tensor in mine.items():
        rival = theirs[name]
        if tensor.shape != rival.shape:
            return False
        if "loss" in mine and tensor.shape[:2] == real.shape:
            tensor, rival = tensor[real.to(tensor.device)], rival[real.to(tensor.device)]
        if tensor.numel() and not _close(tensor.float(), rival.float(), allowed):
            return False
    return True


def _close(one: Tensor, other: Tensor, allowed: float) -> bool:
    scale = one.abs().max().clamp(min=1.0)
    return bool(((one - other).abs().max() <= allowed * scale).item()) or bool(torch.equal(one, other))


def _tensors(output: Any) -> dict[str, Tensor]:
    if isinstance(output, Tensor):
        items: dict[str, Any] = {"output": output}
    elif isinstance(output, Mapping):
        items = {str(name): value for name, value in output.items() if name not in _NOT_COMPARED}
    elif isinstance(output, tuple | list):
        items = {str(place): value for place, value in enumerate(output)}
    else:
        items = {}
    return {name: value for name, value in items.items() if isinstance(value, Tensor) and value.is_floating_point()}
