"""Take an optimizer's step in chunks, so that the copies that a step needs stay small at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

from gradgate.distributed.shards import local
from gradgate.errors import AttachError
from gradgate.tuner.effect import Effect, OptimizerStep
from gradgate.tuner.gating import Gating, MaskedParameter
from gradgate.tuner.masters import Master, Masters
from gradgate.tuner.optimizers import acting
from gradgate.tuner.step_plan import chunks

ParamGroup = dict[str, Any]

# Optimizers of these modules step a parameter alike whether others are stepped with it or not.
_BY_PARAMETER = ("torch.optim", "transformers.optimization")


@dataclass(frozen=True)
class Stepped:
    """A parameter that is not simply stepped: with masked weights, with a master, or both.

    Attributes:
        acting: what the optimizer steps, the parameter or its master.
    """

    parameter: Parameter
    masked: MaskedParameter | None
    master: Master | None

    @property
    def acting(self) -> Parameter:
        return self.parameter if self.master is None else self.master.weight

    @property
    def copied(self) -> int:
        """Bytes that a step copies: the values before it, or the gradient in float32."""
        return local(self.acting)[0].nbytes


class ChunkedStep(Effect):
    """Steps each optimizer in chunks, so that only the copies of one chunk at a time are in memory.

    Masked weights need their old values, masters a gradient in float32, and updates in batches (``foreach``) copies of
    what they update. All chunks but the last are stepped before the optimizer's own step, which then steps the last
    one. After each chunk its masked weights get their old values back, and its masters are rounded into the parameters.
    An optimizer that is not known to step each parameter independently of the others is stepped in one chunk.
    """

    def __init__(self, gating: Gating, masters: Masters) -> None:
        self._gating, self._masters = gating, masters
        self._lists: list[tuple[list[ParamGroup], list[ParamGroup]]] = []
        self._groups: list[tuple[ParamGroup, list[Parameter]]] = []
        self._chunk: list[Stepped] = []
        self._before: list[tuple[Stepped, Tensor]] = []
        self._inside: list[torch.optim.Optimizer] = []
        self._checked: set[str] = set()

    def before_step(self, step: OptimizerStep) -> None:
        """Step all chunks but the last.

        Raises:
            AttachError: if the optimizer keeps a copy of the weights, which cannot be masked.
        """
        self.cancel_step()
        optimizer = step.optimizer
        independent = steps_by_parameter(optimizer)
        stepped = self._stepped(step, every=independent and _in_batches(optimizer))
        wraps = acting(optimizer) is not optimizer
        if not (stepped or wraps):
            return
        in_turn = list(chunks(stepped, lambda one: one.copied)) if independent else [stepped]
        self._begin(optimizer)
        step_chunk = bare_step(optimizer)
        done: set[int] = set()
        try:
            for chunk in in_turn[:-1]:
                members = {id(one.parameter) for one in chunk}
                self._enter(chunk)
                self._restrict(lambda p, members=members: id(p) in members)  # type: ignore[misc]
                step_chunk()
                self._leave(optimizer)
                done |= members
            # The optimizer's own step, which follows, takes the last chunk and every parameter that is in none.
            self._enter(in_turn[-1])
            # A wrapper, such as Lookahead, sees only what has a gradient, so that it writes to nothing else.
            self._restrict(lambda p: id(p) not in done and not (wraps and p.grad is None))
        except BaseException:
            self.cancel_step()
            raise

    def step_alone(self, step: OptimizerStep, group: ParamGroup, masked: MaskedParameter | None) -> None:
        """Step one parameter, outside of the optimizer's own step.

        Args:
            step: the step that this one belongs to.
            group: of this parameter alone, with the options to step it with.
            masked: its masked weights, if it has any.
        """
        parameter = group["params"][0]
        self._begin(step.optimizer)
        try:
            self._enter([Stepped(parameter, masked, self._masters.of(parameter))])
            step.optimizer.param_groups[:] = [{**group, "params": [one.acting for one in self._chunk]}]
            bare_step(step.optimizer)()
            self._leave(step.optimizer)
        finally:
            self.cancel_step()

    def after_step(self, step: OptimizerStep) -> None:
        """End the last chunk."""
        self._leave(step.optimizer)
        self.cancel_step()

    def cancel_step(self) -> None:
        """Restore all parameters of the optimizer, with their states."""
        for one in self._chunk:
            if one.master is not None:
                one.master.leave(self._inside, stepped=False)
        for group, parameters in self._groups:
            group["params"] = parameters
        for groups, every in self._lists:
            groups[:] = every
        self._lists, self._groups, self._chunk, self._before, self._inside = [], [], [], [], []

    def _stepped(self, step: OptimizerStep, *, every: bool) -> list[Stepped]:
        """Return the parameters that are not simply stepped; all with ``every``, if a batched step copies them."""
        masked = {id(one.parameter): one for one in self._gating.masked_parameters(step)}
        if not (every or masked or self._masters.exist):
            return []
        special = []
        for group in step.optimizer.param_groups:
            for parameter in group["params"]:
                one = Stepped(parameter, masked.get(id(parameter)), self._masters.of(parameter))
                if parameter.grad is not None and (every or one.masked is not None or one.master is not None):
                    special.append(one)
        return special

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        self._inside = self._masters.inside(optimizer)
        lists = {id(one.param_groups): one.param_groups for one in self._inside}.values()
        self._lists = [(groups, list(groups)) for groups in lists]
        distinct = {id(group): group for groups in lists for group in groups}.values()
        self._groups = [(group, group["params"]) for group in distinct]

    def _restrict(self, wanted: Callable[[Parameter], bool]) -> None:
        """Leave the optimizer only the wanted parameters, masters in their place, and drop empty groups."""
        acting = {id(one.parameter): one.acting for one in self._chunk}
        for group, parameters in self._groups:
            group["params"] = [acting.get(id(one), one) for one in parameters if wanted(one)]
        for groups, every in self._lists:
            groups[:] = [group for group in every if group["params"]]

    def _enter(self, chunk: list[Stepped]) -> None:
        self._chunk = chunk
        for one in chunk:
            if one.master is not None:
                one.master.enter(self._inside)
        self._before = _values(chunk)

    def _leave(self, optimizer: torch.optim.Optimizer) -> None:
        before, self._before = self._before, []
        for one, values in before:
            assert one.masked is not None
            # One look per parameter is enough, as an optimizer keeps copies from its first step on.
            if one.masked.name not in self._checked:
                self._checked.add(one.masked.name)
                _refuse_own_weights(optimizer, one.masked.name, one.acting, values)
            one.masked.restore(optimizer, one.acting, values)
        chunk, self._chunk = self._chunk, []
        for one in chunk:
            if one.master is not None:
                one.master.leave(self._inside, stepped=True)


def _values(chunk: Sequence[Stepped]) -> list[tuple[Stepped, Tensor]]:
    return [(one, local(one.acting)[0].clone()) for one in chunk if one.masked is not None]


def steps_by_parameter(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if an optimizer is known to step each parameter independently of the others."""
    return type(optimizer).__module__.startswith(_BY_PARAMETER)


def _in_batches(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if the optimizer updates many parameters together, for which it copies all of them."""
    return any(_in_batch(group) for group in optimizer.param_groups)


def _in_batch(group: ParamGroup) -> bool:
    wanted = group.get("foreach", False)
    if wanted is None and not group.get("fused"):  # torch decides, and batches on any accelerator
        return any(parameter.device.type not in ("cpu", "meta") for parameter in group["params"])
    return bool(wanted)


def bare_step(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """Return the optimizer's step without its hooks, which belong to the step as a whole."""
    step = type(optimizer).step
    bare = getattr(step, "__wrapped__", step) if getattr(step, "hooked", False) else step
    return lambda: bare(optimizer)


def _refuse_own_weights(optimizer: torch.optim.Optimizer, name: str, stepped: Tensor, before: Tensor) -> None:
    """Raise if the optimizer's state has a copy of the weights: it moved, and would overwrite masked values."""
    new, _ = local(stepped)
    if torch.equal(new, before):
        return
    state = optimizer.state.get(stepped, {})
    copies = [key for key, value in state.items() if _is_copy(value, new)]
    if copies:
        new.copy_(before)
        raise AttachError(
            f"{type(optimizer).__name__} keeps weights of its own (its state {copies[0]!r} of {name}), which move "
            f"where a mask fixes the model's. Use mask_target=grad, or an optimizer without copies of the weights."
        )


def _is_copy(value: Any, weights: Tensor) -> bool:
    # Moments in 8 bits are tensors of a special class, which cannot be compared; they are not copies.
    if type(value) not in (Tensor, Parameter, DTensor) or not value.is_floating_point():
        return False
    shard, _ = local(value)
    if shard.data_ptr() == weights.data_ptr():  # the weights themselves, which SAM swaps in
        return False
    return shard.shape == weights.shape and torch.equal(shard.to(weights.dtype), weights)
