"""Keep closed weights unchanged when a schedule-free optimizer swaps weights for averages in evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from gradgate.errors import AttachError, GradgateWarning
from gradgate.methods.base import Method
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizers import Optimizers, held_by

# Names of the sequences in the states of schedulefree's optimizers: what descends, its average, and what is trained.
_SEQUENCES = ("z", "x", "y")


class AveragedWeights(Effect):
    """Keeps closed weights as they are when a schedule-free optimizer switches to evaluation and back.

    Its ``eval()`` sets a weight to the average x of its sequence z, and ``train()`` to a point y between the two. All
    three are set to the weight when a parameter closes, so that both calls leave every bit of it; its average restarts
    from there if it opens again. The rest of its state stays as it is.

    Source: Defazio et al. 2024, The Road Less Scheduled, https://arxiv.org/abs/2405.15682

    Args:
        optimizers: any; those that are not schedule-free are left alone.
        method: what decides on the plans.
        reached: canonical names of all parameters that the method opens at some step.
        gating: has the model's parameters.

    Raises:
        AttachError: for ``state=drop``, after which such an optimizer cannot restart.
    """

    def __init__(self, optimizers: Optimizers, method: Method, reached: Collection[str], gating: Gating) -> None:
        self._averaging = [one for one in optimizers if averages(one)]
        self._method, self._reached, self._gating = method, reached, gating
        self._continues = False
        if self._averaging and method.traits.state_of_closed == "drop":
            raise AttachError(
                f"{type(self._averaging[0]).__name__} counts its steps for all parameters together, so a parameter "
                f"with a deleted state would not restart as in a new optimizer. Use state=keep."
            )

    def on_plan(self, coming: ComingStep) -> None:
        """Overwrite the sequences of the parameters that the plan closes.

        Raises:
            AttachError: if the plan masks single weights of a parameter, which move in evaluation.
        """
        if not self._averaging:
            return
        self._refuse_masks(coming)
        if coming.previous is not None:
            self._settle(self._gating.closing(coming.previous, coming.plan))
            return
        # A saved state may be loaded after this plan, so wait for the first step.
        self._continues = True
        if coming.done == 0:
            self._warn_of_late(coming)

    def before_step(self, step: OptimizerStep) -> None:
        """Settle all parameters that are closed, in the first step after attaching."""
        if self._continues:
            self._settle(p for p in self._gating.parameters.values() if not p.requires_grad)

    def after_step(self, step: OptimizerStep) -> None:
        """Settle only parameters that become closed, after the first step."""
        self._continues = False

    def _settle(self, parameters: Iterable[Tensor]) -> None:
        for parameter in parameters:
            for optimizer in self._averaging:
                state = optimizer.state.get(parameter, {})  # indexing would make one
                for sequence in (state[name] for name in _SEQUENCES if isinstance(state.get(name), Tensor)):
                    sequence.copy_(parameter.detach())

    def _refuse_masks(self, coming: ComingStep) -> None:
        masking = self._gating.gated(attrgetter("masks_weights"), coming.plan)
        masked = {id(self._gating.parameters[name]): name for name, _ in masking}
        for optimizer in self._averaging if masked else ():
            name = next((masked[id(p)] for p in held_by(optimizer) if id(p) in masked), None)
            if name is not None:
                raise AttachError(
                    f"{self._method.spec!r} masks single weights of {name}, but {type(optimizer).__name__} keeps a "
                    f"second sequence of weights, and exchanges all of {name} for an average of both in evaluation: "
                    f"masked weights would move. Use mask_target=grad, or an optimizer that is not schedule-free."
                )

    def _warn_of_late(self, coming: ComingStep) -> None:
        for optimizer in self._averaging:
            stepped = {id(parameter) for parameter in held_by(optimizer)}
            late = [n for n in self._reached if n not in coming.opened and id(self._gating.parameters[n]) in stepped]
            betas: Any = optimizer.param_groups[0].get("betas")
            if late and betas is not None and betas[1] < 1.0:
                warnings.warn(
                    f"{type(optimizer).__name__} counts its steps for all parameters together, so what opens late, "
                    f"such as {late[0]}, begins with steps of up to {(1 - betas[1]) ** -0.5:.0f} times the learning "
                    f"rate. Use a method that opens all of it in the first step, SGDScheduleFree, or AdamW.",
                    GradgateWarning,
                    stacklevel=2,
                )


def averages(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if an optimizer swaps weights between training and evaluation, as schedulefree's do."""
    return callable(getattr(optimizer, "train", None)) and callable(getattr(optimizer, "eval", None))
