"""Score single elements: by Fisher information, by the size of the gradient, or by that of the own value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

import torch
from torch import Tensor, nn

from gradgate.distributed.shards import whole
from gradgate.errors import AttachError, NonFiniteError
from gradgate.layers import named_parameters
from gradgate.layers.names import canonical_name
from gradgate.measure.request import Batch, FisherRequest, ScoreRequest
from gradgate.measure.trace import likelihoods_of, separate_tensors
from gradgate.torch_state import preserved_state

_MEASURED = {"fisher": "Fisher information", "gradient": "gradient of the calibration batches", "weight": "value"}


def scores(
    model: nn.Module,
    names: Collection[str],
    batches: Callable[[], Iterable[Batch]],
    request: ScoreRequest,
) -> Iterator[tuple[str, Tensor]]:
    """Yield the score of each element of some parameters, one parameter at a time.

    Scores by gradients take one float32 number per element of all parameters while they are measured; those by
    weights that much for one parameter at a time.

    Args:
        model: as for :func:`gradgate.measure.trace`.
        names: canonical names of parameters.
        batches: returns keyword arguments of the model; not called for scores by weight.
        request: defines the score.

    Yields:
        Canonical name, and scores of 0 or more in the parameter's own shape, float32.

    Raises:
        AttachError: if the model's output or the batches do not allow it.
        NonFiniteError: if a score is not finite.
    """
    if request.of == "weight":
        found = _by_weight(model, names, request)
    else:
        found = _by_gradient(model, names, batches(), request)
    for name, values in found:
        if not bool(torch.isfinite(values).all()):
            weight = "Repair the model" if request.of == "weight" else "Use bf16 or fp32, not fp16"
            raise NonFiniteError(
                f"Weights are chosen by their {_MEASURED[request.of]}, which is not finite in "
                f"{int((~torch.isfinite(values)).sum())} elements of {name}; expected a number for each. {weight}."
            )
        yield name, values


def low_rank(weights: Tensor, rank: int) -> Tensor:
    """Return the best approximation of a matrix by one of low rank; of each matrix in a tensor of more dimensions.

    Args:
        weights: shape ``(..., rows, columns)``.
        rank: 1 or more; the tensor itself if that is at least its number of rows or columns.

    Returns:
        The same shape and device, float32.

    Source: Eckart and Young 1936.
    """
    weights = weights.to(torch.float32)
    if rank >= min(weights.shape[-2:]):
        return weights
    left, singular, right = torch.linalg.svd(weights, full_matrices=False)
    approximation: Tensor = (left[..., :rank] * singular[..., None, :rank]) @ right[..., :rank, :]
    return approximation


def _by_weight(model: nn.Module, names: Collection[str], request: ScoreRequest) -> Iterator[tuple[str, Tensor]]:
    parameters = named_parameters(model)
    for name in names:
        weights = whole(parameters[name]).to(torch.float32)
        if request.rank is not None and weights.dim() > 1:
            weights = low_rank(weights, request.rank)
        yield name, weights.abs()


def _by_gradient(
    model: nn.Module, names: Collection[str], batches: Iterable[Batch], request: ScoreRequest
) -> Iterator[tuple[str, Tensor]]:
    likelihood = FisherRequest(request.groups, request.batches, request.labels, "batch")
    generator = torch.Generator().manual_seed(request.seed)
    counted = 0
    with preserved_state(model, training=not request.eval_mode, gradients=True, seed=request.seed):
        chosen, rest = separate_tensors(model, names)
        sums = {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in chosen.items()}
        for batch in islice(batches, request.batches):
            loss = likelihoods_of(model, chosen | rest, batch, likelihood, generator).mean()
            gradients = torch.autograd.grad(loss, list(chosen.values()), allow_unused=True)
            for total, gradient in zip(sums.values(), gradients, strict=True):
                if gradient is not None:
                    gradient = gradient.float()
                    total.addcmul_(gradient, gradient) if request.of == "fisher" else total.add_(gradient)
            counted += 1
    if counted == 0:
        raise AttachError(
            "Choosing weights needs at least one batch of training data, and got none. Let fisher_data return batches."
        )
    for name, total in sums.items():
        yield canonical_name(name), (total / counted).abs_()
