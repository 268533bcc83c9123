"""The loss of extractive question answering, whatever the padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def span_loss(outputs: Any, batch: dict[str, Tensor]) -> Tensor:
    """The mean over the windows of a batch of the cross-entropies of start and end, halved.

    Models take padding for places where an answer may be, so that the loss of a window depends on the longest one of
    its batch, and one batch differs from its parts. Here padding does not count.

    Args:
        outputs: with ``start_logits`` and ``end_logits``, shape ``(windows, sub-words)``.
        batch: with ``start_positions`` and ``end_positions``, shape ``(windows,)``, and ``attention_mask``.
    """
    losses = []
    for side in ("start", "end"):
        logits = outputs[f"{side}_logits"].float().masked_fill(batch["attention_mask"] == 0, -torch.inf)
        losses.append(functional.cross_entropy(logits, batch[f"{side}_positions"]))
    return (losses[0] + losses[1]) / 2
