"""Define an :class:`Effect`: one thing that a tuner does around each training step, in an explicit order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradgate.methods.plan import Plan
from gradgate.methods.timeline import Timeline


@dataclass(frozen=True)
class ComingStep:
    """The plan for the next step, and the state of the training.

    Attributes:
        plan: one gate for each group.
        opened: canonical names of the parameters that require a gradient under the plan.
        done: optimizer steps done so far.
        timeline: the plans so far, this one included.
        previous: the plan of the step before; None if training starts or resumes from a saved state.
        watched: names of the groups to watch in the step.
    """

    plan: Plan
    opened: Set[str]
    done: int
    timeline: Timeline
    previous: Plan | None = None
    watched: tuple[str, ...] = ()

    @property
    def begins_phase(self) -> bool:
        """Whether other groups are closed than in the step before, or there was no step before."""
        if self.previous is None:
            return True
        return any(gate.closed != self.previous[group].closed for group, gate in self.plan.items())


@dataclass(frozen=True)
class OptimizerStep:
    """The step of one optimizer: a whole training step, or a part of it if several optimizers step one model.

    Attributes:
        number: of the training step, counted from 1.
        optimizer: what steps.
        own: the ``id`` of each parameter that it holds; None if it is the only optimizer.
    """

    number: int
    optimizer: torch.optim.Optimizer
    own: Set[int] | None = None

    def holds(self, parameter: Tensor) -> bool:
        """Return True if this optimizer steps the parameter."""
        return self.own is None or id(parameter) in self.own


class Effect:
    """One mechanism that a tuner keeps in force on a model or its optimizers.

    A constructor checks whether the mechanism can work, and changes nothing. Each method does nothing by default.
    ``attach`` and ``release`` are called once; the others in every step, in this order: ``on_plan``, the forward and
    backward passes of the training loop, ``before_step``, the optimizer's step, and ``after_step`` or ``cancel_step``;
    the last three for each optimizer in turn.
    """

    state_name: ClassVar[str] = ""
    """The first part of the names of :meth:`tensors` in a saved state; empty for an effect without any."""

    on_model: ClassVar[bool] = False
    """Whether it changes the model, and refers to neither tuner nor optimizer: it is released with a lost tuner."""

    def attach(self) -> None:
        """Make the changes that last as long as the tuner is attached."""

    def on_plan(self, coming: ComingStep) -> None:
        """Put a plan into force, before the forward pass of the step."""

    def before_step(self, step: OptimizerStep) -> None:
        """Act right before an optimizer's step."""

    def after_step(self, step: OptimizerStep) -> None:
        """Act right after it; undo what :meth:`before_step` has changed."""

    def cancel_step(self) -> None:
        """Undo what :meth:`before_step` has changed if the step failed, was skipped, or never began."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the tensors, by name, that a resumed training needs and cannot compute again."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what :meth:`tensors` returned in an earlier training.

        Raises:
            RunError: if the tensors do not fit the model.
        """

    def release(self) -> None:
        """Undo everything, also after an :meth:`attach` that failed halfway."""

    def finish(self, done: int) -> None:
        """Check the model a last time, after ``done`` steps, when every effect is released."""


class Effects:
    """The effects of one tuner. They begin in their order and end in reverse order.

    Args:
        ordered: the first acts first on a plan and before a step, and last after a step and at the end.

    Attributes:
        on_model: those that change the model, in the same order.
    """

    def __init__(self, ordered: Iterable[Effect]) -> None:
        self._ordered = list(ordered)
        self._reversed = self._ordered[::-1]
        self._with_state = [effect for effect in self._ordered if effect.state_name]
        self.on_model = [effect for effect in self._ordered if effect.on_model]

    def attach(self) -> None:
        """Attach each effect."""
        for effect in self._ordered:
            effect.attach()

    def on_plan(self, coming: ComingStep) -> None:
        """Put a plan into force."""
        for effect in self._ordered:
            effect.on_plan(coming)

    def before_step(self, step: OptimizerStep) -> None:
        """Prepare an optimizer's step; if one effect fails, cancel it in all."""
        try:
            for effect in self._ordered:
                effect.before_step(step)
        except BaseException:
            self.cancel_step()
            raise

    def after_step(self, step: OptimizerStep) -> None:
        """End an optimizer's step; if one effect fails, cancel it in all."""
        try:
            for effect in self._reversed:
                effect.after_step(step)
        except BaseException:
            self.cancel_step()
            raise

    def cancel_step(self) -> None:
        """Undo the preparation of a step that did not happen."""
        for effect in self._reversed:
            effect.cancel_step()

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of all effects, as ``state name/name``."""
        return {
            f"{effect.state_name}/{name}": tensor
            for effect in self._with_state
            for name, tensor in effect.tensors().items()
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what :meth:`tensors` returned; raise RunError for tensors of another model."""
        by_effect: dict[str, dict[str, Tensor]] = {}
        for path, tensor in tensors.items():
            owner, _, name = path.partition("/")
            by_effect.setdefault(owner, {})[name] = tensor
        for effect in self._with_state:
            effect.load_tensors(by_effect.get(effect.state_name, {}))

    def release(self) -> None:
        """Release each effect."""
        for effect in self._reversed:
            effect.cancel_step()
            effect.release()

    def finish(self, done: int) -> None:
        """Let each effect check the model a last time."""
        for effect in self._ordered:
            effect.finish(done)
