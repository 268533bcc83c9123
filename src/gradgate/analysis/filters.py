"""Find the filters of weights: which axes of a tensor count its outputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradgate.layers.names import canonical_name

Axes = tuple[int, ...]
ROWS: Axes = (0,)
"""Of linear layers, convolutions and tables of embeddings, where a row is one output or the vector of one word."""


def filter_axes(model: nn.Module) -> dict[str, Axes]:
    """Return the axes that count filters, by canonical parameter name.

    A filter is what makes one output: a row of a linear layer's matrix, a column of the transposed matrix of GPT-2's
    ``Conv1D``, a row or a column of one expert in a tensor of all experts, the vector of one word or position. All
    other axes are within a filter. Vectors, such as biases, have no filters and are left out.
    """
    found: dict[str, Axes] = {}
    for path, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        for name, weight in own.items():
            if weight.dim() > 1:
                found.setdefault(canonical_name(f"{path}.{name}" if path else name), _axes(module, weight, own))
    return found


def _axes(module: nn.Module, weight: Tensor, own: Mapping[str, Tensor]) -> Axes:
    if isinstance(module, nn.modules.conv._ConvNd | nn.Linear | nn.Embedding | nn.Bilinear):
        return (1,) if module.__class__.__name__.startswith("ConvTranspose") else ROWS
    if weight.dim() == 2:
        return (1,) if type(module).__name__ == "Conv1D" and hasattr(module, "nf") else ROWS
    leading = tuple(range(weight.dim() - 2))  # experts, or an axis of size 1 before positions
    return (*leading, weight.dim() - 1 if _is_transposed(module, own) else weight.dim() - 2)


def _is_transposed(module: nn.Module, own: Mapping[str, Tensor]) -> bool:
    """Return True if a module's tensors of experts have the shape ``(experts, inputs, outputs)``.

    transformers marks most of them; of others, the shapes of both projections tell it.
    """
    marked = getattr(module, "is_transposed", None)
    if isinstance(marked, bool):
        return marked
    up, down = own.get("gate_up_proj"), own.get("down_proj")
    if up is None or down is None or up.dim() != 3 or down.dim() != 3:
        return False
    return up.shape[2] == 2 * down.shape[1]


def by_filter(weight: Tensor, axes: Axes) -> Tensor:
    """Return a tensor as a matrix with one row per filter; a view if the filters are rows."""
    others = tuple(axis for axis in range(weight.dim()) if axis not in axes)
    count = torch.Size([weight.shape[axis] for axis in axes]).numel()
    return weight.permute(*axes, *others).reshape(count, -1)


def from_filters(rows: Tensor, shape: torch.Size, axes: Axes) -> Tensor:
    """Return a tensor of a shape from the matrix that :func:`by_filter` makes of it."""
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    order = (*axes, *others)
    back = [order.index(axis) for axis in range(len(shape))]
    return rows.reshape([shape[axis] for axis in order]).permute(*back).contiguous()
