"""Updates of the elements with the largest momentum: which these are, and which optimizers have one."""

from __future__ import annotations

import torch
from torch import Tensor

from gradgate.distributed.shards import local, whole
from gradgate.errors import AttachError
from gradgate.measure.selection import largest
from gradgate.methods.plan import Plan
from gradgate.tuner.optimizers import Optimizers


def with_largest_momentum(optimizer: torch.optim.Optimizer, stepped: Tensor, share: float) -> Tensor:
    """The elements of a tensor whose first moment is largest in size, after the step that took up its gradient.

    Args:
        optimizer: Adam or AdamW.
        stepped: what it stepped, with a state; all processes that hold a part of it must ask.
        share: of all elements, in (0, 1]; rounded down, at least one. Of equal elements those that come first.

    Returns:
        A bool tensor, in the shape of what this process holds.
    """
    moment = whole(optimizer.state[stepped]["exp_avg"])
    passing = largest(moment.abs(), max(1, int(share * moment.numel())))
    held, offset = local(stepped)
    return passing.flatten()[offset : offset + held.numel()].view(held.shape)


def check_momentum(plan: Plan, optimizers: Optimizers) -> None:
    """Check that each optimizer has the momentum that the gates of a plan ask for.

    Raises:
        AttachError: naming one that has not.
    """
    if not any(gate.momentum for gate in plan.values()):
        return
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
            raise AttachError(
                f"The method updates the elements with the largest momentum of Adam, its first moment, but "
                f"{optimizers.label(optimizer)} keeps another state, or none. Use torch.optim.AdamW or Adam "
                f"(--optim adamw_torch)."
            )
