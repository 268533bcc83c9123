"""Choose the single weights with the largest scores, as masks of one bit each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from gradgate.measure.request import Batch, SelectionRequest
from gradgate.measure.scores import scores


def choose(
    model: nn.Module,
    groups: Mapping[str, Iterable[str]],
    batches: Callable[[], Iterable[Batch]],
    selection: SelectionRequest,
) -> dict[str, Tensor]:
    """Return masks of the elements that a request selects.

    Needs one float32 number per element of the groups while it measures; by weights and within each parameter, for one
    parameter at a time.

    Args:
        model: as for :func:`gradgate.measure.trace`.
        groups: group name to canonical parameter names.
        batches: returns keyword arguments of the model; not called for scores by weight.
        selection: says how many, how they are scored, and which of equal ones.

    Returns:
        Canonical name to mask, as :func:`pack` makes it.

    Raises:
        AttachError: if the model's output or the batches do not allow it.
        NonFiniteError: if a score is not finite.
    """
    names = [name for members in groups.values() for name in members]
    if not names:
        return {}
    found = scores(model, names, batches, selection.scores)
    if selection.within == "parameter":
        return {name: pack(largest(values, max(1, round(selection.share * values.numel())))) for name, values in found}
    values_of = dict(found)
    device = next(iter(values_of.values())).device  # a model may lie on several
    flat = torch.cat([values.flatten().to(device) for values in values_of.values()])
    left_out = min(flat.numel() - 1, round((1.0 - selection.share) * flat.numel()))
    edge = flat.kthvalue(left_out + 1).values
    return {name: pack(values >= edge.to(values.device)) for name, values in values_of.items()}


def largest(values: Tensor, count: int) -> Tensor:
    """Return a mask of the ``count`` largest elements; in a tie, those that come first.

    Args:
        values: any shape, without NaN.
        count: from 1 to the number of elements; exactly that many are in the mask.

    Returns:
        A bool tensor of the same shape.
    """
    flat = values.flatten()
    edge = flat.kthvalue(flat.numel() - count + 1).values
    above, equal = flat > edge, flat == edge
    missing = count - above.sum()
    return (above | (equal & (equal.cumsum(0, dtype=torch.int32) <= missing))).view(values.shape)


def pack(mask: Tensor) -> Tensor:
    """Return a bool tensor as bits: uint8, shape ``(ceil(numel / 8),)``, the first element in the lowest bit."""
    flat = mask.flatten()
    padded = torch.nn.functional.pad(flat, (0, -flat.numel() % 8)).view(-1, 8).to(torch.uint8)
    return (padded << torch.arange(8, dtype=torch.uint8, device=mask.device)).sum(dim=1, dtype=torch.uint8)


def unpack(bits: Tensor, numel: int) -> Tensor:
    """Return the mask that :func:`pack` packed: bool, shape ``(numel,)``."""
    shifts = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return (bits.unsqueeze(1) >> shifts).bitwise_and_(1).bool().flatten()[:numel]
