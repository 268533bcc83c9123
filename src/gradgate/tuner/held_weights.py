"""Masked weights keep their bits through an optimizer step, without a second copy of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

from gradgate.distributed.shards import local
from gradgate.errors import AttachError
from gradgate.tuner.effect import Effect, OptimizerStep
from gradgate.tuner.gating import Gating, Held

ParamGroup = dict[str, Any]

# Their step of some parameters is the same whether others are stepped with them or not.
_BY_PARAMETER = ("torch.optim", "transformers.optimization")
# More than this is held only for a parameter that is larger by itself.
_PART_BYTES = 2**26


class HeldWeights(Effect):
    """Steps each optimizer in parts, so that the old values of one part at a time are in memory.

    All parts but the last are stepped before the optimizer's own step, which then steps the last one. After each part
    its masked weights get their old values back. An optimizer that is not known to step each parameter independently
    of the others is stepped in one part, which needs the old values of all masked parameters at once.
    """

    def __init__(self, gating: Gating) -> None:
        self._gating = gating
        self._groups: list[tuple[ParamGroup, list[Parameter]]] = []
        self._last: list[tuple[Held, Tensor]] = []
        self._checked: set[str] = set()

    def before_step(self, step: OptimizerStep) -> None:
        """Step all parts but the last.

        Raises:
            AttachError: if the optimizer keeps a copy of the weights, which cannot be held.
        """
        self.cancel_step()
        held = self._gating.held(step)
        if not held:
            return
        optimizer = step.optimizer
        parts = list(_parts(held)) if _steps_by_parameter(optimizer) else [list(held)]
        self._groups = [(group, group["params"]) for group in optimizer.param_groups]
        step_part = _bare_step(optimizer)
        done: set[int] = set()
        try:
            for part in parts[:-1]:
                members = {id(one.parameter) for one in part}
                self._restrict(lambda p, members=members: id(p) in members)  # type: ignore[misc]
                before = _values(part)
                step_part()
                self._put_back(before, optimizer)
                done |= members
        except BaseException:
            self.cancel_step()
            raise
        self._restrict(lambda p: id(p) not in done)
        self._last = _values(parts[-1])

    def after_step(self, step: OptimizerStep) -> None:
        """Put back the masked weights of the last part."""
        last, self._last = self._last, []
        self._put_back(last, step.optimizer)
        self.cancel_step()

    def cancel_step(self) -> None:
        """Give the optimizer all of its parameters back."""
        for group, parameters in self._groups:
            group["params"] = parameters
        self._groups, self._last = [], []

    def _restrict(self, wanted: Callable[[Parameter], bool]) -> None:
        for group, parameters in self._groups:
            group["params"] = [parameter for parameter in parameters if wanted(parameter)]

    def _put_back(self, before: list[tuple[Held, Tensor]], optimizer: torch.optim.Optimizer) -> None:
        for one, values in before:
            if one.name not in self._checked:
                self._checked.add(one.name)
                _refuse_own_weights(optimizer, one, values)
            one.restore(values)


def _parts(held: Sequence[Held]) -> Iterator[list[Held]]:
    part: list[Held] = []
    size = 0
    for one in held:
        size += one.parameter.nbytes
        if part and size > _PART_BYTES:
            yield part
            part, size = [], one.parameter.nbytes
        part.append(one)
    yield part


def _values(part: Sequence[Held]) -> list[tuple[Held, Tensor]]:
    return [(one, local(one.parameter)[0].clone()) for one in part]


def _steps_by_parameter(optimizer: torch.optim.Optimizer) -> bool:
    return type(optimizer).__module__.startswith(_BY_PARAMETER)


def _bare_step(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """The optimizer's step without its hooks, which belong to the step as a whole."""
    step = type(optimizer).step
    bare = getattr(step, "__wrapped__", step) if getattr(step, "hooked", False) else step
    return lambda: bare(optimizer)


def _refuse_own_weights(optimizer: torch.optim.Optimizer, one: Held, before: Tensor) -> None:
    """Look for a copy of the weights in the optimizer's state: it has moved, and would overwrite what is held."""
    new, _ = local(one.parameter)
    if torch.equal(new, before):
        return
    state = optimizer.state.get(one.parameter, {})
    copies = [key for key, value in state.items() if _is_copy(value, new)]
    if copies:
        new.copy_(before)
        raise AttachError(
            f"{type(optimizer).__name__} keeps weights of its own (its state {copies[0]!r} of {one.name}), which move "
            f"where a mask holds the model's. Use mask_target=grad, or an optimizer without copies of the weights."
        )


def _is_copy(value: Any, weights: Tensor) -> bool:
    # Moments in 8 bits are tensors of a class of their own, which cannot be compared, and no copies.
    if type(value) not in (Tensor, Parameter, DTensor) or not value.is_floating_point():
        return False
    held, _ = local(value)
    return held.shape == weights.shape and torch.equal(held.to(weights.dtype), weights)
