"""Measure the signal-to-noise ratio of weight matrices: how far their spectrum exceeds that of random noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import sqrt

import torch
from torch import Tensor

from gradgate.errors import NonFiniteError
from gradgate.layers import LayerMap
from gradgate.layers.names import is_bias


def signal_to_noise(weight: Tensor) -> float:
    """Return the SNR of a matrix, after Spectrum (Hartford et al. 2024, Sec. 3: https://arxiv.org/abs/2406.06623).

    The singular values above the Marchenko-Pastur edge ``sigma * (1 + sqrt(n / m))`` are signal, the others noise, with
    ``sigma`` the interquartile range of the singular values over 1.349, as in the authors' code. The SNR is the sum of
    the signal over that of the noise (over 1 if there is none), over the largest singular value.

    Args:
        weight: shape ``(rows, columns)``; for more axes, such as ``(experts, rows, columns)``, the mean over the
            matrices. Any float type; computed in float32.

    Returns:
        0 or more; 0 for a matrix of zeros.

    Raises:
        NonFiniteError: if an element is not finite.
    """
    matrices = weight.detach().float().flatten(end_dim=-3) if weight.dim() > 3 else weight.detach().float()
    if not bool(torch.isfinite(matrices).all()):
        raise NonFiniteError("A weight that is not finite has no signal-to-noise ratio. Check how the model was saved.")
    each = matrices if matrices.dim() == 3 else matrices.unsqueeze(0)
    return sum(_of_values(torch.linalg.svdvals(one), one.shape[0] / one.shape[1]) for one in each) / len(each)


def _of_values(values: Tensor, aspect: float) -> float:
    """Return the SNR of singular values in descending order; ``aspect`` is rows per column of the matrix."""
    if not len(values) or float(values[0]) == 0.0:
        return 0.0
    low, high = torch.quantile(values, torch.tensor([0.25, 0.75], device=values.device, dtype=values.dtype)).tolist()
    edge = (high - low) / 1.349 * (1.0 + sqrt(min(aspect, 1.0 / aspect)))
    above = values > edge
    signal, noise = float(values[above].sum()), float(values[~above].sum())
    return signal / (noise or 1.0) / float(values[0])


def matrices_of(layers: LayerMap, group: str) -> list[str]:
    """Return the parameters of a group that have a ratio: those with two dimensions or more, but for biases."""
    return [n for n in layers[group].parameter_names if len(layers.weights[n].shape) > 1 and not is_bias(n)]


def signal_of_groups(groups: Mapping[str, Iterable[str]], read: Callable[[str], Tensor]) -> dict[str, float]:
    """Return the mean SNR over the matrices of each group, without groups that have none.

    Args:
        groups: group name to the names of its parameters.
        read: returns the whole tensor of a name; called once per name, in order.

    Raises:
        NonFiniteError: if a weight is not finite; the first is named.
    """
    found: dict[str, float] = {}
    for group, names in groups.items():
        each = [_named(name, weight) for name in names if (weight := read(name)).dim() > 1]
        if each:
            found[group] = sum(each) / len(each)
    return found


def _named(name: str, weight: Tensor) -> float:
    try:
        return signal_to_noise(weight)
    except NonFiniteError as error:
        raise NonFiniteError(f"{name}: {error}") from error
