"""Refuses what would fail to train without a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn import Parameter

from gradgate.errors import AttachError
from gradgate.layers import LayerMap
from gradgate.methods.base import Method


def check_reachable(
    method: Method,
    layers: LayerMap,
    groups: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Parameter],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Check that there is something that the method will open, and that the optimizer holds all of it.

    Args:
        method: which groups it reaches.
        layers: of the model.
        groups: group name to the names of the parameters that may open.
        parameters: canonical name to parameter.
        optimizer: the one that will be stepped.

    Raises:
        AttachError: if not.
    """
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    wanted = reached_names(method, layers, groups)
    if not wanted:
        reached = method.reaches(layers)
        raise AttachError(
            f"The method {method.spec!r} would never open anything: its groups "
            f"({', '.join(sorted(reached)) or 'none'}) have no parameter that requires grad and that it trains. "
            f"Groups of this model: {', '.join(groups)}."
        )
    missing = [name for name in wanted if id(parameters[name]) not in held]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise AttachError(
            f"{missing[0]}{more} will be opened by {method.spec!r}, but the optimizer does not hold it, so "
            f"it would never learn. Build the optimizer from all of model.parameters() before closing any."
        )


def reached_names(method: Method, layers: LayerMap, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The canonical names of all parameters that the method opens at some step."""
    reached = method.reaches(layers)
    return [name for group in groups if group in reached for name in groups[group]]
