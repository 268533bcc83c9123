"""Refuse updates of weights that no step of the tuner's optimizers makes: the clock would stand still in silence."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, ClassVar
from weakref import WeakSet

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gradgate.distributed.shards import is_sharded
from gradgate.errors import AttachError, RunError
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizers import Optimizers, held_by, nested

_NO_PASS = -1  # as torch numbers backward passes
_PROBES = 4
_WATCHED_STEPS = 2
_PERTURBATIONS = 16


class ForeignSteps(Effect):
    """Refuses the step of an optimizer that the tuner does not follow, before it moves a weight that may open.

    Such as one that was made after the tuner, or the optimizers that hooks step within the backward pass.

    Args:
        optimizers: all that the tuner follows.
        gating: knows the parameters that may open.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, optimizers: Optimizers, gating: Gating) -> None:
        self._known = WeakSet(inner for one in optimizers.given for inner in nested(one))
        self._labels = optimizers.labels
        self._names = {id(gating.parameters[name]): name for name in gating.trainable}
        self._hook: Any = None

    def attach(self) -> None:
        """Look at the steps of every optimizer in this process."""
        self._hook = register_optimizer_step_pre_hook(lambda optimizer, *_: self._look_at(optimizer))

    def release(self) -> None:
        """Stop looking."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _look_at(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer in self._known:
            return
        name = next((self._names[id(p)] for p in held_by(optimizer) if id(p) in self._names), None)
        if name is not None:
            raise RunError(
                f"{type(optimizer).__name__} is about to step {name}, but the tuner follows {self._labels}: its clock "
                f"would not tick, and what is closed or masked could move. Make the tuner with every optimizer that is "
                f"stepped (Tuner(model, [one, other], …)), and a new tuner for a new optimizer."
            )
        self._known.add(optimizer)


class HiddenUpdates(Effect):
    """Refuses weights that move without a step of the optimizer: within a backward pass, or between two of them.

    Optimizers such as LOMO's update within the backward pass. Others have methods of their own in place of ``step``,
    such as a ``second_step`` of SAM that does not call the step of an optimizer inside it. Some small weights are
    compared until the first steps have been counted; under an object around an optimizer, in every step, as that may
    write to the weights after the step of the optimizer, like Lookahead.

    Args:
        optimizers: all that the tuner follows.
        gating: has the parameters.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, optimizers: Optimizers, gating: Gating) -> None:
        self._labels, self._wrappers, self._gating = optimizers.labels, " and ".join(optimizers.wrappers), gating
        # SAM moves the weights and back before its step, in some forms more than once.
        self._allowed = _PERTURBATIONS if any(len(nested(one)) > 1 for one in optimizers) else 1
        self._from: int | None = None
        self._probes: Sequence[Tensor] = ()
        self._before: list[Tensor] = []
        self._moves = 0
        self._pass = _NO_PASS
        self._stepped = False
        self._hooks: list[Any] = []

    def on_plan(self, coming: ComingStep) -> None:
        """Choose what to compare; stop after the first steps."""
        self.release()
        self._from = coming.done if self._from is None else self._from
        if coming.done >= self._from + _WATCHED_STEPS and not self._wrappers:
            return
        opened = (self._gating.parameters[name] for name in coming.opened)
        self._probes = nsmallest(_PROBES, (p for p in opened if not is_sharded(p)), key=Tensor.numel)
        self._hooks = [_of_leaf(parameter).register_hook(self._on_gradient) for parameter in self._probes]
        self._stepped = bool(self._wrappers) and coming.previous is not None
        if self._stepped:
            self._before = self._copies()

    def before_step(self, step: OptimizerStep) -> None:
        """Begin again: this step is seen."""
        self._before, self._moves = [], 0

    def release(self) -> None:
        """Stop comparing."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._probes, self._before = [], (), []
        self._moves, self._pass = 0, _NO_PASS

    def _on_gradient(self, _: Tensor) -> None:
        current = torch._C._current_graph_task_id()
        if current == self._pass:  # one that raised has another
            return
        self._pass = current
        engine: Any = Variable._execution_engine  # untyped in torch
        engine.queue_callback(self._after_backward)
        self._moves += self._have_moved()
        self._before = self._copies()
        stepped, self._stepped = self._stepped, False
        if self._moves and stepped:
            raise AttachError(
                f"{self._wrappers} or other code changed weights after the step of {self._labels}, where closed and "
                f"masked ones would move too. Pass that optimizer to the tuner, and step it without {self._wrappers}."
            )
        if self._moves > self._allowed and not any(p.grad is not None and bool(p.grad.any()) for p in self._probes):
            raise AttachError(
                f"Weights have moved {self._moves} times, and {self._labels} took no step that the tuner could see: "
                f"the update is made by a method of its own, such as second_step, or by other code. Make it in "
                f"step(), or by the step() of a torch optimizer inside it; or train without gradgate."
            )

    def _after_backward(self) -> None:
        if self._have_moved():
            raise AttachError(
                f"Weights moved within the backward pass, before a step of {self._labels}: an optimizer "
                f"such as LOMO's, or one in a hook, updates them while gradients are still computed, where gates "
                f"cannot act. Use an optimizer that updates in step(); release_gradients=True saves the same memory."
            )

    def _copies(self) -> list[Tensor]:
        return [probe.detach().clone() for probe in self._probes]

    def _have_moved(self) -> bool:
        pairs = zip(self._probes, self._before, strict=False)
        return any(not torch.isclose(probe, old, rtol=0, atol=0, equal_nan=True).all() for probe, old in pairs)


def unseen_steps(optimizers: Optimizers, gating: Gating, release: bool) -> list[Effect]:
    """Return the effects that refuse unseen updates; with ``release``, the tuner itself steps in backward passes."""
    return [ForeignSteps(optimizers, gating), *([] if release else [HiddenUpdates(optimizers, gating)])]


def _of_leaf(parameter: Tensor) -> Any:
    return parameter  # untyped in torch
