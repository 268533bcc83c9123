"""Stops a training whose gradients are no numbers any more, before they reach a weight."""

from __future__ import annotations

from torch import Tensor

from gradgate.errors import NonFiniteError
from gradgate.processes import all_finite
from gradgate.tuner.gating import Gating


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
