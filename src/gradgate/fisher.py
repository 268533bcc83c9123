"""The trace of the Fisher information of groups of parameters, measured without a trace on the training.

The model is called with detached aliases of its parameters, so that no flag, ``.grad``, hook or optimizer state of
the training sees the measurement; dropout is off, and the global random state is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from gradgate.errors import AttachError
from gradgate.layers.names import canonical_name

Labels = Literal["sample", "argmax", "true"]
Gradient = Literal["per_example", "batch"]
QA = Literal["sum", "stack"]
Batch = Mapping[str, Any]
Batches = Callable[[int], Iterable[Batch]]
"""Training batches for a measurement after so many steps; must draw from a generator of its own."""

IGNORED = -100


@dataclass(frozen=True)
class FisherRequest:
    """What to measure.

    Attributes:
        groups: names of the groups whose trace is wanted.
        batches: how many batches of training data.
        labels: ``sample`` draws y from the model (Eq. 1); ``argmax`` takes its mode (the authors' code); ``true``
            takes the data's labels (the empirical Fisher).
        gradient: ``per_example`` is Eq. 1; ``batch`` squares the gradient of the batch's mean, as Algorithm 2 does,
            and divides by the batch size.
        qa: for span extraction, ``sum`` adds log p(start) and log p(end) of an example; ``stack`` treats them as two
            rows, as the code does.
        eval_mode: measure without dropout.
        seed: of the sampled labels.
    """

    groups: tuple[str, ...]
    batches: int = 40
    labels: Labels = "sample"
    gradient: Gradient = "per_example"
    qa: QA = "sum"
    eval_mode: bool = True
    seed: int = 0


def trace(
    model: nn.Module, groups: Mapping[str, Iterable[str]], batches: Iterable[Batch], request: FisherRequest
) -> dict[str, float]:
    """tr(F) of each group, the mean over examples (over batches for ``gradient="batch"``).

    Args:
        model: not wrapped by DDP or the like; its output has ``logits``, or ``start_logits`` and ``end_logits``.
        groups: group name to parameter names.
        batches: keyword arguments of the model; ``labels`` say which tokens count and, for ``true``, the labels.
        request: how to measure.

    Returns:
        Group name to trace, float64.

    Raises:
        AttachError: if the model's output or the batches do not allow it.
    """
    wanted = {name: group for group, names in groups.items() for name in names}
    generator = torch.Generator().manual_seed(request.seed)
    totals = dict.fromkeys(groups, 0.0)
    counted = 0
    with _undisturbed(model, request.eval_mode):
        aliases = _aliases(model, wanted)
        for batch in islice(batches, request.batches):
            rows = _rows(batch)
            norms = _batch_norms if request.gradient == "batch" else _example_norms
            for name, value in norms(model, aliases, wanted, _on_device(model, batch), request, generator).items():
                totals[wanted[name]] += value
            counted += 1 if request.gradient == "batch" else rows
    if counted == 0:
        raise AttachError("The Fisher trace needs at least one batch of training data, and got none.")
    return {group: total / counted for group, total in totals.items()}


def log_likelihoods(
    output: Any, batch: Batch, request: FisherRequest, generator: torch.Generator, *, regression: bool
) -> Tensor:
    """log p(y|x) of each row with labels as the request says. Returns shape ``(rows,)``; two rows an example for
    stacked span extraction. Padding and ignored tokens do not count.
    """
    if getattr(output, "start_logits", None) is not None:
        return _spans(output, batch, request, generator)
    logits = output.logits
    if regression:
        return _gaussian(logits, batch, request, generator)
    labels = _labels(logits.detach(), batch.get("labels"), request.labels, generator)
    scores = functional.log_softmax(logits.float(), dim=-1)
    chosen: Tensor = scores.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return chosen if logits.dim() == 2 else (chosen * _counted_tokens(batch, logits)).sum(dim=-1)


def _spans(output: Any, batch: Batch, request: FisherRequest, generator: torch.Generator) -> Tensor:
    parts = []
    for name in ("start", "end"):
        logits = getattr(output, f"{name}_logits").float()
        mask = batch.get("attention_mask")
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -torch.inf)
        labels = _labels(logits.detach(), batch.get(f"{name}_positions"), request.labels, generator)
        parts.append(functional.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1))
    return torch.cat(parts) if request.qa == "stack" else parts[0] + parts[1]


def _gaussian(logits: Tensor, batch: Batch, request: FisherRequest, generator: torch.Generator) -> Tensor:
    """Unit-variance normal likelihood around the prediction, up to its constant."""
    means = logits.float().reshape(logits.shape[0], -1)
    if request.labels == "argmax":
        raise AttachError("fisher_labels=argmax is zero for regression, whose mode is the prediction; use sample.")
    if request.labels == "true":
        target = batch["labels"].to(means.dtype).reshape(means.shape)
    else:
        target = means.detach() + torch.randn(means.shape, generator=generator).to(means.device)
    squares: Tensor = (target - means).pow(2).sum(dim=-1)
    return -0.5 * squares


def _labels(logits: Tensor, true: Tensor | None, kind: Labels, generator: torch.Generator) -> Tensor:
    if kind == "argmax":
        return logits.argmax(dim=-1)
    if kind == "true":
        if true is None:
            raise AttachError("fisher_labels=true needs batches with labels.")
        return true
    shares = logits.float().softmax(dim=-1).cpu()
    drawn = torch.multinomial(shares.reshape(-1, shares.shape[-1]), 1, generator=generator)
    labels: Tensor = drawn.reshape(shares.shape[:-1]).to(logits.device)
    return labels


def _counted_tokens(batch: Batch, logits: Tensor) -> Tensor:
    """1.0 for tokens that have a label, or are no padding where there are no labels; shape ``(rows, tokens)``."""
    labels, mask = batch.get("labels"), batch.get("attention_mask")
    if labels is not None and labels.shape == logits.shape[:2]:
        return torch.ne(labels, IGNORED).to(torch.float32)
    counts: Tensor = torch.ones(logits.shape[:2], device=logits.device) if mask is None else mask.to(torch.float32)
    return counts


def _batch_norms(
    model: nn.Module,
    aliases: dict[str, Tensor],
    wanted: Mapping[str, str],
    batch: Batch,
    request: FisherRequest,
    generator: torch.Generator,
) -> dict[str, float]:
    """Squared gradient of the mean log-likelihood, divided by the batch size (Algorithm 2)."""
    losses = _losses(model, aliases, batch, request, generator)
    return {name: value / _rows(batch) for name, value in _squares(losses.mean(), aliases, wanted).items()}


def _example_norms(
    model: nn.Module,
    aliases: dict[str, Tensor],
    wanted: Mapping[str, str],
    batch: Batch,
    request: FisherRequest,
    generator: torch.Generator,
) -> dict[str, float]:
    """Sum over the examples of each one's squared gradient."""
    losses = _losses(model, aliases, batch, request, generator)
    rows = _rows(batch)
    losses = losses.reshape(-1, rows).sum(dim=0)  # stacked spans: an example has two rows
    totals = dict.fromkeys(wanted, 0.0)
    for row in range(rows):
        for name, value in _squares(losses[row], aliases, wanted, keep=row < rows - 1).items():
            totals[name] += value
    return totals


def _losses(
    model: nn.Module, aliases: dict[str, Tensor], batch: Batch, request: FisherRequest, generator: torch.Generator
) -> Tensor:
    output = functional_call(model, aliases, args=(), kwargs=dict(batch))
    settings = getattr(model, "config", None)
    regression = getattr(settings, "problem_type", None) == "regression" or getattr(settings, "num_labels", 2) == 1
    return log_likelihoods(output, batch, request, generator, regression=regression)


def _squares(
    loss: Tensor, aliases: dict[str, Tensor], wanted: Mapping[str, str], *, keep: bool = False
) -> dict[str, float]:
    names = [name for name in aliases if canonical_name(name) in wanted]
    gradients = torch.autograd.grad(loss, [aliases[n] for n in names], retain_graph=keep, allow_unused=True)
    return {
        canonical_name(name): float(gradient.double().pow(2).sum())
        for name, gradient in zip(names, gradients, strict=True)
        if gradient is not None
    }


def _aliases(model: nn.Module, wanted: Mapping[str, str]) -> dict[str, Tensor]:
    """Every parameter under its own name, sharing memory; only the wanted ones require a gradient."""
    return {
        name: parameter.detach().requires_grad_(canonical_name(name) in wanted)
        for name, parameter in model.named_parameters()
    }


def _on_device(model: nn.Module, batch: Batch) -> dict[str, Any]:
    device = next(model.parameters()).device
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()}


def _rows(batch: Batch) -> int:
    return len(next(value for value in batch.values() if isinstance(value, Tensor)))


@contextmanager
def _undisturbed(model: nn.Module, eval_mode: bool) -> Iterator[None]:
    """Put back training flags and random state of all devices afterwards."""
    flags = {module: module.training for module in model.modules()}
    devices = {parameter.device for parameter in model.parameters() if parameter.device.type == "cuda"}
    try:
        with torch.random.fork_rng(devices=[device.index for device in devices]), torch.enable_grad():
            model.train(not eval_mode)
            yield
    finally:
        for module, training in flags.items():
            module.training = training
