"""Compute how far a language model's distributions of the next token have moved from the pretrained model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradgate.training.generation.token_loss import Row, mean_over_tokens

_MOST = 2**24  # probabilities of a step: those of all tokens of a row may not fit, with a vocabulary of 262,144
_LEAST = -700.0  # logarithm of a probability that counts as 0: the ratio to a smaller one may overflow


def mean_token_divergence(
    model: Any, pretrained: Any, rows: Sequence[Row], batch_size: int, padding: int, precision: str
) -> float:
    """Return the mean of KL(pretrained || model) over the tokens that the loss counts, in nats.

    Log-probabilities are in float32 and sums in float64. Nothing is clamped: with p of the pretrained model and q of
    the other, each word of the vocabulary adds p log(p / q) - p + q. That sums to the divergence, but is never
    negative, even if rounded probabilities do not sum to 1.

    Args:
        model: as of :func:`gradgate.training.generation.token_loss.mean_over_tokens`, as the others are.
        pretrained: in evaluation mode, on the device of the model.
    """
    return mean_over_tokens((pretrained, model), _divergences, rows, batch_size, padding, precision)


def _divergences(logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Return the divergence at each token."""
    before, after = logits
    step = max(1, _MOST // before.shape[-1])
    parts = zip(torch.split(before, step), torch.split(after, step), strict=True)
    return torch.cat([_divergence(one, other) for one, other in parts])


def _divergence(before: Tensor, after: Tensor) -> Tensor:
    of_before, of_after = _log_probabilities(before), _log_probabilities(after)
    ratio = of_after - of_before
    # p (q / p - 1 - log(q / p)), which is exact where p and q are nearly equal; q alone is left where p is 0
    terms = torch.where(of_before > _LEAST, of_before.exp() * (ratio.expm1() - ratio), of_after.exp())
    return terms.sum(-1)


def _log_probabilities(logits: Tensor) -> Tensor:
    found = logits.float().log_softmax(-1)
    return (found.cpu() if found.device.type == "mps" else found).double()  # Apple's GPUs have no float64
