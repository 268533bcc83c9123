"""What becomes of the optimizer's state of parameters that close."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from gradgate.errors import AttachError
from gradgate.methods.base import State

# Their state of all zeros is the one that they begin with. Of others it is not: NAdam begins with a product of 1.
_ZERO_IS_NEW = (
    torch.optim.Adadelta,
    torch.optim.Adafactor,
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.AdamW,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.SGD,
)


def check_state_policy(optimizer: torch.optim.Optimizer, policy: State) -> None:
    """Refuse what would not let a parameter start anew as in a fresh optimizer.

    Raises:
        AttachError: for ``reset`` if a state of zeros is not how the optimizer begins; for ``drop`` if it makes its
            state once, at its creation.
    """
    name = type(optimizer).__name__
    damped = any(group.get("dampening") for group in optimizer.param_groups)
    if policy == "reset" and (type(optimizer) not in _ZERO_IS_NEW or damped):
        raise AttachError(
            f"state=reset sets the optimizer's state to zero, which is not how {name}{' with dampening' * damped} "
            f"begins. Use state=drop or state=keep."
        )
    if policy == "drop" and isinstance(optimizer, torch.optim.Adagrad):
        raise AttachError(f"{name} makes its state once and cannot make a deleted one again. Use state=keep.")


def forget(optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor], policy: State) -> None:
    """Apply the policy to parameters that close; those without a state have none afterwards."""
    for parameter in parameters:
        if policy == "drop":
            optimizer.state.pop(parameter, None)
        elif policy == "reset":
            _zero(optimizer, parameter)


def _zero(optimizer: torch.optim.Optimizer, parameter: Tensor) -> None:
    state = optimizer.state.get(parameter, {})  # indexing would make one
    for key, value in state.items():
        if isinstance(value, Tensor):
            value.zero_()
        elif value is not None:
            state[key] = type(value)(0)
