"""The single weights with the largest Fisher information, as masks of one bit each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import torch
from torch import Tensor, nn

from gradgate.errors import AttachError, NonFiniteError
from gradgate.fisher.request import Batch, SelectionRequest
from gradgate.fisher.trace import likelihoods_of, separate_tensors
from gradgate.layers.names import canonical_name
from gradgate.torch_state import preserved_state


def choose(
    model: nn.Module, groups: Mapping[str, Iterable[str]], batches: Iterable[Batch], selection: SelectionRequest
) -> dict[str, Tensor]:
    """The elements that a selection picks; all of those that are equal at the threshold, as in the authors' code.

    Needs one float32 number for each element of the groups while it measures.

    Args:
        model: as for :func:`gradgate.fisher.trace`.
        groups: group name to canonical parameter names.
        batches: keyword arguments of the model.
        selection: how many, and how to measure.

    Returns:
        Canonical name to mask, as :func:`pack` makes it.

    Raises:
        AttachError: if the model's output or the batches do not allow it.
        NonFiniteError: if a gradient is not finite.
    """
    names = [name for members in groups.values() for name in members]
    information = _information(model, names, batches, selection)
    flat = torch.cat([values.flatten() for values in information.values()])
    if not bool(torch.isfinite(flat).all()):
        wrong = next(name for name, values in information.items() if not bool(torch.isfinite(values).all()))
        raise NonFiniteError(
            "The Fisher information is not finite: gradients overflow. Use bf16 or fp32, not fp16. "
            f"The first such weight is {wrong}."
        )
    left_out = min(flat.numel() - 1, round((1.0 - selection.share) * flat.numel()))
    edge = flat.kthvalue(left_out + 1).values
    return {name: pack(values >= edge) for name, values in information.items()}


def pack(mask: Tensor) -> Tensor:
    """A bool tensor as bits: uint8, shape ``(ceil(numel / 8),)``, the first element in the lowest bit."""
    flat = mask.flatten()
    padded = torch.nn.functional.pad(flat, (0, -flat.numel() % 8)).view(-1, 8).to(torch.uint8)
    return (padded << torch.arange(8, dtype=torch.uint8, device=mask.device)).sum(dim=1, dtype=torch.uint8)


def unpack(bits: Tensor, numel: int) -> Tensor:
    """The inverse of :func:`pack`: bool, shape ``(numel,)``."""
    shifts = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return (bits.unsqueeze(1) >> shifts).bitwise_and_(1).bool().flatten()[:numel]


def _information(
    model: nn.Module, names: list[str], batches: Iterable[Batch], selection: SelectionRequest
) -> dict[str, Tensor]:
    request = selection.request
    generator = torch.Generator().manual_seed(request.seed)
    counted = 0
    with preserved_state(model, training=not request.eval_mode, gradients=True, seed=request.seed):
        chosen, rest = separate_tensors(model, names)
        sums = {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in chosen.items()}
        for batch in islice(batches, request.batches):
            loss = likelihoods_of(model, chosen | rest, batch, request, generator).mean()
            gradients = torch.autograd.grad(loss, list(chosen.values()), allow_unused=True)
            for total, gradient in zip(sums.values(), gradients, strict=True):
                if gradient is not None:
                    total.addcmul_(gradient.float(), gradient.float())
            counted += 1
    if counted == 0:
        raise AttachError(
            "Choosing weights needs at least one batch of training data, and got none. Let fisher_data return batches."
        )
    return {canonical_name(name): total / counted for name, total in sums.items()}
