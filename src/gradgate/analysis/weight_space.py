"""Move the weights of a model along a line or over a plane, and put them back bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gradgate.analysis.filters import ROWS, Axes, by_filter, from_filters
from gradgate.gates.key import key

Weights = Mapping[str, Tensor]
_ROWS: Mapping[str, Axes] = {}


@contextmanager
def put_back(parameters: Mapping[str, nn.Parameter]) -> Iterator[dict[str, Tensor]]:
    """Let the body change weights, which are afterwards as they were, bit for bit, also after an exception.

    Yields:
        Copies of the weights, by name.
    """
    kept = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    try:
        yield kept
    finally:
        _write(parameters, kept)


def interpolate(parameters: Mapping[str, nn.Parameter], start: Weights, end: Weights, share: float) -> None:
    """Put ``start + share * (end - start)`` into the parameters; exactly ``start`` at 0 and ``end`` at 1."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.lerp(start[name], end[name], share))


def displace(
    parameters: Mapping[str, nn.Parameter], centre: Weights, directions: Sequence[Weights], steps: Sequence[float]
) -> None:
    """Put the centre into the parameters, moved so far in each direction."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(centre[name])
            for direction, step in zip(directions, steps, strict=True):
                parameter.add_(direction[name], alpha=step)


def filter_normalized(centre: Weights, seed: int, axis: int, filters: Mapping[str, Axes] = _ROWS) -> dict[str, Tensor]:
    """Return a random direction in which each filter is as long as that of the weights.

    Biases and the weights of norms stay where they are. A parameter's part depends on its name alone, so that models
    that share it move alike.

    Args:
        centre: the weights around which the plane lies.
        seed: of the draw.
        axis: 0 or 1.
        filters: name to the axes that count filters, see :func:`gradgate.analysis.filters.filter_axes`; rows for a
            name that is absent.

    Source:
        Li et al. 2018, section 4, https://arxiv.org/abs/1712.09913
    """
    return {
        name: _direction(weight, key(seed=seed, stream="landscape", name=name, draw=axis), filters.get(name, ROWS))
        for name, weight in centre.items()
    }


def _direction(weight: Tensor, seed: int, axes: Axes) -> Tensor:
    if weight.ndim < 2:
        return torch.zeros_like(weight)
    draw = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed % 2**63)).to(weight)
    rows, norms = by_filter(draw, axes), by_filter(weight, axes).norm(dim=1, keepdim=True)
    scaled: Tensor = rows * (norms / rows.norm(dim=1, keepdim=True).clamp_min(1e-12))
    return from_filters(scaled, weight.shape, axes)


def distance(start: Weights, end: Weights) -> float:
    """Return the Euclidean distance between two sets of weights."""
    return math.sqrt(sum(float((end[name].detach().double() - start[name].double()).square().sum()) for name in end))


def _write(parameters: Mapping[str, nn.Parameter], weights: Weights) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
