"""Reset the optimizer's state of the single weights that a changed mask newly covers."""

from __future__ import annotations

from torch import Tensor

from gradgate.distributed.shards import local
from gradgate.tuner.effect import ComingStep, Effect
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizers import Optimizers


class RedrawnMasks(Effect):
    """Zeroes the optimizer's state of the elements that a new mask covers; they restart from zero if they reopen.

    Elements that stay open keep their state, and those that open start at zero, because a masked element's gradient is
    zero. A state that is not a plain tensor of the parameter's shape, such as moments in 8 bits, decays by itself.

    Args:
        optimizers: any; each has the states of its own parameters.
        gating: has the masks in force.
    """

    def __init__(self, optimizers: Optimizers, gating: Gating) -> None:
        self._optimizers, self._gating = optimizers, gating

    def on_plan(self, coming: ComingStep) -> None:
        """Reset states for the new masks; a plan that resumes from a saved state has none, as that was done before."""
        if coming.previous is None:
            return
        for name in self._gating.redrawn(coming.previous):
            parameter = self._gating.parameters[name]
            for optimizer in self._optimizers.with_inner():
                for value in optimizer.state.get(parameter, {}).values():  # indexing would make a state
                    if isinstance(value, Tensor) and value.shape == parameter.shape and value.is_floating_point():
                        self._gating.zero_masked(name, local(value)[0])
