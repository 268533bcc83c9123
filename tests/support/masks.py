"""What masks of a million elements must let through."""

from __future__ import annotations

from torch import Tensor

MILLION = 10**6


PER_EPOCH = 7


def errors(mask: Tensor, share: float) -> float:
    """By how many standard errors the share that passes differs from what it should be."""
    difference = abs(mask.double().mean().item() - share)
    return difference / (share * (1 - share) / mask.numel()) ** 0.5 if 0 < share < 1 else difference * mask.numel()
