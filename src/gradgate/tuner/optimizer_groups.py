"""Scale learning rates and treat the state of closed parameters, in optimizers that keep their parameter groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from gradgate.errors import AttachError
from gradgate.methods.traits import State
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizer_states import OffloadedStates
from gradgate.tuner.optimizers import Optimizers, acting, held_by

ParamGroup = dict[str, Any]

_OWN = ("params", "lr")
"""What the parts of a group have of their own."""


class LearningRates(Effect):
    """Splits the parameter groups of each optimizer by learning rate while it steps.

    Before and after a step the optimizer has its own groups, the same dictionaries in the same list: schedulers and
    saved states see nothing of the split. An optimizer keeps its state by parameter, so the split does not touch it.
    """

    def __init__(self, gating: Gating) -> None:
        self._gating = gating
        self._groups: list[ParamGroup] = []
        self._split: list[tuple[ParamGroup, list[ParamGroup]]] = []

    def before_step(self, step: OptimizerStep) -> None:
        """Multiply the learning rates of the parameters that have a factor, of their gate or by ``lr_scale``.

        Raises:
            AttachError: if the group of such a parameter has no learning rate.
        """
        self.cancel_step()
        factors = self._gating.lr_factors()
        if factors:
            groups = self._groups = acting(step.optimizer).param_groups
            self._split = [(group, split_by_factor(group, factors)) for group in groups]
            groups[:] = chain.from_iterable(parts for _, parts in self._split)

    def after_step(self, step: OptimizerStep) -> None:
        """Restore the optimizer's own groups.

        Raises:
            AttachError: if the optimizer keeps a number per group that depends on the learning rate, as schedulefree's
                do: a group with several rates would need several.
        """
        split = self._split
        self.cancel_step()
        for _, parts in split:
            _check_equal(step.optimizer, parts)

    def cancel_step(self) -> None:
        """Restore the optimizer's own groups."""
        if not self._split:
            return
        for group, parts in self._split:
            # Some optimizers count their steps in the group, equally in all of its parts.
            group.update({key: value for key, value in parts[0].items() if key not in _OWN})
        self._groups[:] = [group for group, _ in self._split]
        self._groups, self._split = [], []


def _check_equal(optimizer: Any, parts: Sequence[ParamGroup]) -> None:
    """Raise AttachError if the parts of a group differ in more than parameters and learning rates."""
    first, *others = parts
    apart = {
        key for other in others for key, value in other.items() if key not in _OWN and not _equal(value, first.get(key))
    }
    if apart:
        raise AttachError(
            f"The method or lr_scale scales the learning rate of single parameters, but {type(optimizer).__name__} "
            f"keeps {', '.join(sorted(apart))} per group, which depends on the rate. Use another optimizer, such as "
            f"AdamW, or leave the factors out."
        )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return bool(one == other)


def split_by_factor(group: ParamGroup, factors: Mapping[Tensor, float]) -> list[ParamGroup]:
    """Return the group, or one copy per learning-rate factor: few copies, so that updates stay batched."""
    by_factor: dict[float, list[Tensor]] = {}
    for parameter in group["params"]:
        by_factor.setdefault(factors.get(parameter, 1.0), []).append(parameter)
    if by_factor.keys() <= {1.0}:
        return [group]
    if group.get("lr") is None:
        raise AttachError(
            "The method or lr_scale scales the learning rate of single parameters, but the optimizer has a group "
            "without 'lr'. Use an optimizer with an explicit learning rate, not one that sets it automatically. "
            f"Found lr=None in the group of {len(group['params'])} parameters; expected a number."
        )
    return [{**group, "params": params, "lr": group["lr"] * factor} for factor, params in by_factor.items()]


# These start from a state of all zeros. Others do not: NAdam starts from a product of 1.
_ZERO_IS_NEW: tuple[type[torch.optim.Optimizer], ...] = (
    torch.optim.Adadelta,
    torch.optim.Adafactor,
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.AdamW,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.SGD,
    *([torch.optim.Muon] if hasattr(torch.optim, "Muon") else []),  # from PyTorch 2.9 on
)


class StateOfClosed(Effect):
    """Applies a method's policy to the optimizer's state of each parameter that closes.

    Raises:
        AttachError: if the policy does not fit an optimizer; see :func:`check_state_policy`.
    """

    def __init__(self, optimizers: Optimizers, policy: State, gating: Gating) -> None:
        for optimizer in optimizers.with_inner():
            check_state_policy(optimizer, policy)
        self._optimizers, self._policy, self._gating = optimizers, policy, gating
        self._offloaded = OffloadedStates()
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Offload states again after the optimizer loads them, which moves them to the device of the parameters."""
        for optimizer in self._optimizers.with_inner() if self._policy == "offload" else ():
            self._hooks.append(optimizer.register_load_state_dict_post_hook(self._place))

    def on_plan(self, coming: ComingStep) -> None:
        """Reset, drop or offload the state of parameters that close; fetch the state of those that open.

        A plan that resumes from a saved state closes nothing: that state was treated before it was saved.
        """
        if self._policy == "offload":
            for optimizer in self._optimizers.with_inner() if coming.begins_phase else ():
                self._place(optimizer)
            return
        if self._policy == "keep" or coming.previous is None:
            return
        closing = self._gating.closing(coming.previous, coming.plan)
        for optimizer in self._optimizers.with_inner():  # an optimizer without a parameter has no state of it
            forget(optimizer, closing, self._policy)

    def release(self) -> None:
        """Fetch what is offloaded: without a tuner, an optimizer steps every parameter that has a gradient."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._offloaded.fetch_all()

    def _place(self, optimizer: torch.optim.Optimizer) -> None:
        """Move states of closed parameters to host memory, then fetch those of open ones, in this order for room."""
        opened = {id(self._gating.parameters[name]) for name in self._gating.names(lambda gate: not gate.closed)}
        parameters = list(held_by(optimizer))
        self._offloaded.offload(optimizer, (parameter for parameter in parameters if id(parameter) not in opened))
        self._offloaded.fetch(optimizer, (parameter for parameter in parameters if id(parameter) in opened))


def check_state_policy(optimizer: torch.optim.Optimizer, policy: State) -> None:
    """Refuse a policy after which a parameter would not start as in a new optimizer.

    Raises:
        AttachError: for ``reset`` if a state of zeros is not how the optimizer starts; for ``drop`` if it makes its
            state once, at its creation.
    """
    name = type(optimizer).__name__
    damped = any(group.get("dampening") for group in optimizer.param_groups)
    if policy == "reset" and (type(optimizer) not in _ZERO_IS_NEW or damped):
        raise AttachError(
            f"state=reset sets the optimizer's state to zero, which is not how {name}{' with dampening' * damped} "
            f"starts. Use state=drop or state=keep."
        )
    if policy == "drop" and isinstance(optimizer, torch.optim.Adagrad):
        raise AttachError(f"{name} makes its state once and cannot make a deleted one again. Use state=keep.")


def forget(optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor], policy: State) -> None:
    """Apply the policy to the optimizer's state of parameters that close."""
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
