"""Measure the trace of the Fisher information over batches, by functional calls.

The measurement does not affect the training: no flag, ``.grad``, hook, buffer or optimizer state changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gradgate.errors import AttachError, NonFiniteError
from gradgate.layers.names import canonical_name
from gradgate.layers.quantized import quantized_parameters
from gradgate.measure.likelihood import OutputForm, log_likelihoods
from gradgate.measure.per_example import ExampleGradients, squares
from gradgate.measure.request import Batch, FisherRequest
from gradgate.torch_state import functional_tensors, preserved_state


def trace(
    model: nn.Module, groups: Mapping[str, Iterable[str]], batches: Iterable[Batch], request: FisherRequest
) -> dict[str, float]:
    """Return tr(F) of each group, the mean over examples (over batches for ``gradient="batch"``).

    Args:
        model: not wrapped by DDP or similar; its output has ``logits``, or ``start_logits`` and ``end_logits``.
        groups: group name to canonical parameter names; a parameter is in one group.
        batches: keyword arguments of the model; ``labels`` say which tokens count and, for ``true``, the labels.
        request: how to measure.

    Returns:
        Group name to trace.

    Raises:
        AttachError: if the model's output or the batches do not allow it.
        NonFiniteError: if a trace is not finite.
    """
    wanted = {name: group for group, names in groups.items() for name in names}
    generator = torch.Generator().manual_seed(request.seed)
    totals, counted = dict.fromkeys(groups, 0.0), 0
    with preserved_state(model, training=not request.eval_mode, gradients=True, seed=request.seed):
        chosen, rest = separate_tensors(model, wanted)
        examples = ExampleGradients(model, chosen)
        for batch in islice(batches, request.batches):
            with examples.recorded() if request.gradient == "per_example" else nullcontext():
                losses = likelihoods_of(model, chosen | rest, batch, request, generator)
            found, rows = _squares(losses, chosen, examples, request)
            del losses  # and its graph, before the next one grows
            for name, value in found.items():
                totals[wanted[canonical_name(name)]] += value
            counted += rows
    return _means(totals, counted)


def _squares(
    losses: Tensor, chosen: dict[str, Tensor], examples: ExampleGradients, request: FisherRequest
) -> tuple[dict[str, float], int]:
    """Return name to sum of squared gradients, and the number of rows."""
    size = losses.shape[-1]
    if request.gradient == "per_example":
        found = examples.squares(losses.reshape(-1, size), chosen) if losses.requires_grad else {}
        return found, losses.numel()
    found = squares(losses.mean(), chosen) if losses.requires_grad else {}
    return {name: value / size for name, value in found.items()}, 1


def separate_tensors(model: nn.Module, wanted: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return a model's tensors for functional calls: those with canonical names in ``wanted``, and the others.

    Quantized parameters stay in the model: they cannot learn, and their modules read more of them than their numbers.
    """
    wanted, parameters = set(wanted), dict(model.named_parameters())
    chosen, rest = functional_tensors(model, {name for name in parameters if canonical_name(name) in wanted})
    quantized = quantized_parameters(parameters)
    return chosen, {name: tensor for name, tensor in rest.items() if name not in quantized}


def likelihoods_of(
    model: nn.Module, tensors: dict[str, Tensor], batch: Batch, request: FisherRequest, generator: torch.Generator
) -> Tensor:
    """Return :func:`log_likelihoods` of a batch under a model with ``tensors`` in place of its own."""
    device = next(model.parameters()).device
    try:
        on_device: dict[str, Any] = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in batch.items()}
        with _scoring_modules(model) as scoring:
            output = functional_call(model, tensors, args=(), kwargs=on_device)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise AttachError(_not_called(model, batch, error)) from error
    return log_likelihoods(output, on_device, request, generator, OutputForm.of(scoring[-1] if scoring else model))


@contextmanager
def _scoring_modules(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Collect the models of transformers that return logits in a forward pass, the outermost last.

    The model itself may be a wrapper without a configuration, or have a head per task.
    """
    found: list[nn.Module] = []

    def collect(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if any(getattr(output, name, None) is not None for name in ("logits", "start_logits")):
            found.append(module)

    models = [each for each in model.modules() if hasattr(each, "config") and hasattr(each, "can_generate")]
    hooks = [each.register_forward_hook(collect) for each in models]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def described(batch: object) -> str:
    """Return what a batch is, for messages: the names of its entries, or its type."""
    return f"its entries {', '.join(batch)}" if isinstance(batch, Mapping) else f"a {type(batch).__name__}"


def _not_called(model: nn.Module, batch: object, error: Exception) -> str:
    return (
        f"The Fisher information is measured by calling {type(model).__name__} with a training batch as keyword "
        f"arguments, which failed for {described(batch)}: {error}. Use a method that measures nothing, or pass "
        f"batches that the model takes as fisher_data=lambda step: batches, to Tuner or GateCallback."
    )


def _means(totals: dict[str, float], counted: int) -> dict[str, float]:
    if counted == 0:
        raise AttachError(
            "The Fisher trace needs at least one batch of training data, and got none. Let fisher_data return batches."
        )
    wrong = [group for group, total in totals.items() if not math.isfinite(total)]
    if wrong:
        raise NonFiniteError(
            f"The Fisher trace of {', '.join(wrong)} is not finite: the gradients overflow. Lower the learning rate, "
            f"clip gradients, or use bf16 or fp32 instead of fp16."
        )
    return {group: total / counted for group, total in totals.items()}
