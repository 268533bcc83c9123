"""Select the elements with the largest momentum, and check that an optimizer has one."""

from __future__ import annotations

import torch
from torch import Tensor

from gradgate.distributed.shards import local, whole
from gradgate.errors import AttachError
from gradgate.measure.selection import largest
from gradgate.methods.plan import Plan
from gradgate.tuner.optimizers import Optimizers


def with_largest_momentum(optimizer: torch.optim.Optimizer, stepped: Tensor, share: float) -> Tensor:
    """Return which elements have the largest first moment in size, after the step that took up its gradient.

    Args:
        optimizer: Adam or AdamW.
        stepped: what it stepped, with a state; all processes that hold a part of it must ask.
        share: of all elements, in (0, 1]; rounded down, at least one. Ties go to the first elements.

    Returns:
        A bool tensor, in the shape of the local shard.
    """
    moment = whole(optimizer.state[stepped]["exp_avg"])
    passing = largest(moment.abs(), max(1, int(share * moment.numel())))
    shard, offset = local(stepped)
    return passing.flatten()[offset : offset + shard.numel()].view(shard.shape)


def check_momentum(plan: Plan, optimizers: Optimizers) -> None:
    """Check that each optimizer has the momentum that the gates of a plan ask for.

    Raises:
        AttachError: naming an optimizer without it.
    """
    if not any(gate.momentum for gate in plan.values()):
        return
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
            raise AttachError(
                f"The method updates the elements with the largest momentum of Adam, its first moment, but "
                f"{optimizers.label(optimizer)} keeps another state, or none. Use torch.optim.AdamW or Adam "
                f"(optim='adamw_torch')."
            )
