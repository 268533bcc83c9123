"""One tuner for each model: to a second one, what the first closed would look frozen for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.distributed.shards import all_finite
from gradgate.errors import AttachError, NonFiniteError
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.tuner.gating import Gating

# The method of the tuner that each model has now.
_ATTACHED: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


def check_alone(model: nn.Module) -> None:
    """Refuse a model that has a tuner.

    Raises:
        AttachError: naming the method of the one that it has.
    """
    if model in _ATTACHED:
        raise AttachError(
            f"This model already has a tuner ({_ATTACHED[model]!r}), and what that one keeps closed would "
            f"look frozen for good to a second. Call its detach() first, or use it in a with block."
        )


def note_attached(model: nn.Module, method: str) -> None:
    """The model has a tuner with this method from now on."""
    _ATTACHED[model] = method


def note_detached(model: nn.Module) -> None:
    """The model has no tuner any more."""
    _ATTACHED.pop(model, None)


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


def check_finite(gating: Gating, step: int) -> None:
    """Look at the smallest gradient: a loss that is not finite makes every gradient not finite.

    Raises:
        NonFiniteError: naming the step after ``step`` done ones.
    """
    opened = gating.gradients(lambda gate: gate.open)
    # Of gated gradients the largest: in a small one, all that is not finite may be masked.
    sparse = [] if opened else gating.gradients(lambda gate: gate.sparse)
    seen = min(opened, key=Tensor.numel) if opened else max(sparse, key=Tensor.numel, default=None)
    if seen is not None and not all_finite(seen):
        raise NonFiniteError(
            f"The gradients of step {step + 1} are not finite; the weights are still those of step {step}. Lower the "
            f"learning rate, clip gradients, or use bf16 or fp32 instead of fp16."
        )
