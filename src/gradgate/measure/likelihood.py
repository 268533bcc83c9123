"""Compute log p(y|x) of a batch, for every kind of output that the models have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gradgate.errors import AttachError, NonFiniteError
from gradgate.measure.request import Batch, FisherRequest, Labels

IGNORED = -100


@dataclass(frozen=True)
class OutputForm:
    """The meaning of a model's logits, which their shape does not show.

    Attributes:
        problem: ``config.problem_type``. ``regression``, also taken for a single output, is a normal distribution of
            variance 1 around the prediction; ``multi_label_classification`` one coin per class.
        causal: the logits of a token predict the next one.
        decodes: the tokens are those of a decoder, with a mask of their own.
    """

    problem: str | None = None
    causal: bool = False
    decodes: bool = False

    @classmethod
    def of(cls, model: Any) -> OutputForm:
        """Return the form of a model's logits, by its configuration if it has one."""
        settings = getattr(model, "config", None)
        decodes = bool(getattr(settings, "is_encoder_decoder", False))
        writes = bool(getattr(model, "can_generate", bool)())
        return cls(getattr(settings, "problem_type", None), writes and not decodes, writes and decodes)


def log_likelihoods(
    output: Any, batch: Batch, request: FisherRequest, generator: torch.Generator, form: OutputForm
) -> Tensor:
    """Return log p(y|x) of each row, with the labels that a request names. Padding and ignored tokens do not count.

    Args:
        output: with ``logits`` of shape ``(rows, classes)``, ``(rows, choices)`` or ``(rows, tokens, classes)``, or
            with ``start_logits`` and ``end_logits`` of shape ``(rows, tokens)``.
        batch: what the model was called with.
        request: says which labels, and how spans count.
        generator: draws the sampled labels, on the CPU; one draw per label, whatever the padding.
        form: says what the logits stand for.

    Returns:
        Shape ``(rows,)``; ``(2, rows)``, starts and ends, for stacked span extraction.

    Raises:
        AttachError: if the output or the batch do not allow it.
        NonFiniteError: if the logits are not finite.
    """
    if getattr(output, "start_logits", None) is not None:
        return _spans(output, batch, request, generator)
    if getattr(output, "logits", None) is None:
        raise AttachError(
            f"The Fisher trace needs a model whose output has logits, or start_logits and end_logits; this one "
            f"returned {type(output).__name__}. Give the model a head, and leave return_dict on."
        )
    logits = _upcast(output.logits)
    if logits.dim() > 3:
        raise AttachError(
            f"The Fisher trace needs logits per row, or per row and token; this model's have the shape "
            f"{tuple(logits.shape)}. Use a method that measures nothing."
        )
    if form.problem == "regression" or (logits.dim() == 2 and logits.shape[-1] == 1):
        return _gaussian(logits, batch, request, generator)
    if form.problem == "multi_label_classification":
        return _multi_label(logits, batch, request, generator)
    if logits.dim() == 2:
        return _classes(logits, _true(batch, "labels", request.labels), request.labels, generator)
    return _tokens(logits, batch, request, generator, form)


def _spans(output: Any, batch: Batch, request: FisherRequest, generator: torch.Generator) -> Tensor:
    parts = []
    for side in ("start", "end"):
        logits = _upcast(getattr(output, f"{side}_logits"))
        mask = batch.get("attention_mask")
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -torch.inf)
        labels = _true(batch, f"{side}_positions", request.labels)
        if labels is not None:  # a position outside of the text is how a question without an answer may be written
            inside = (labels >= 0) & (labels < logits.shape[-1])
            labels = labels.masked_fill(~inside, IGNORED)
        parts.append(_classes(logits, labels, request.labels, generator))
    return torch.stack(parts) if request.qa == "stack" else parts[0] + parts[1]


def _tokens(
    logits: Tensor, batch: Batch, request: FisherRequest, generator: torch.Generator, form: OutputForm
) -> Tensor:
    labels, mask = batch.get("labels"), batch.get("decoder_attention_mask" if form.decodes else "attention_mask")
    counted = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    for tensor, nothing in ((labels, IGNORED), (mask, 0)):
        if tensor is not None and tensor.shape == counted.shape:
            counted &= tensor != nothing
    true = _true(batch, "labels", request.labels)
    if true is not None and true.shape != counted.shape:
        raise AttachError(
            f"fisher_labels=true needs a label per token, of the shape {tuple(counted.shape)} of the logits' tokens; "
            f"these labels have the shape {tuple(true.shape)}. Use fisher_labels=sample."
        )
    if form.causal:
        logits, counted, true = logits[:, :-1], counted[:, 1:], None if true is None else true[:, 1:]
    scores = torch.zeros(counted.shape, dtype=logits.dtype, device=logits.device)
    chosen = _classes(logits[counted], None if true is None else true[counted], request.labels, generator)
    return scores.masked_scatter(counted, chosen).sum(dim=-1)


def _classes(logits: Tensor, true: Tensor | None, kind: Labels, generator: torch.Generator) -> Tensor:
    """Return log p of one class per row of ``(rows, classes)``; 0 for an ignored label."""
    labels = true if true is not None else _own_labels(logits.detach(), kind, generator)
    scores = functional.log_softmax(logits, dim=-1)
    picked = scores.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(labels == IGNORED, torch.zeros_like(picked), picked)


def _own_labels(logits: Tensor, kind: Labels, generator: torch.Generator) -> Tensor:
    if kind == "argmax":
        return logits.argmax(dim=-1)
    shares = logits.cpu().double().softmax(dim=-1)
    if not bool(torch.isfinite(shares).all()):
        wrong = logits[~torch.isfinite(logits)]
        raise NonFiniteError(
            "The model's logits are not finite, so no labels can be drawn from them for the Fisher trace. Lower the "
            "learning rate, clip gradients, or use bf16 or fp32 instead of fp16. "
            f"Found {wrong[0].item()} among {wrong.numel():,} of {logits.numel():,} logits; expected finite numbers."
        )
    # By the inverse of the distribution function: one draw per row, so that padding does not shift other draws.
    cumulated = shares.cumsum(dim=-1)
    drawn = torch.rand((len(shares), 1), generator=generator, dtype=cumulated.dtype) * cumulated[:, -1:]
    return torch.searchsorted(cumulated, drawn, right=True).squeeze(-1).to(logits.device)


def _gaussian(logits: Tensor, batch: Batch, request: FisherRequest, generator: torch.Generator) -> Tensor:
    """Return the log density of a normal distribution, up to its constant."""
    means = logits.reshape(logits.shape[0], -1)
    if request.labels == "argmax":
        raise AttachError(
            "Labels by argmax, which mode=code takes, make the Fisher trace of a regression zero: its mode is the "
            "prediction. Use fisher_labels=sample. Found fisher_labels=argmax; expected sample or true."
        )
    true = _true(batch, "labels", request.labels)
    if true is not None:
        target = true.to(means.dtype).reshape(means.shape)
    else:
        noise = torch.randn(means.shape, generator=generator, dtype=means.dtype)
        target = means.detach() + noise.to(means.device)
    squares: Tensor = (target - means).pow(2).sum(dim=-1)
    return -0.5 * squares


def _multi_label(logits: Tensor, batch: Batch, request: FisherRequest, generator: torch.Generator) -> Tensor:
    labels = _true(batch, "labels", request.labels)
    if labels is None:
        shares = logits.detach().sigmoid()
        heads = 0.5 if request.labels == "argmax" else torch.rand(shares.shape, generator=generator).to(shares.device)
        labels = shares > heads
    losses = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return -losses.sum(dim=-1)


def _true(batch: Batch, name: str, kind: Labels) -> Tensor | None:
    """Return the batch's labels if ``kind`` is ``true``."""
    if kind != "true":
        return None
    labels: Tensor | None = batch.get(name)
    if labels is None:
        raise AttachError(f"fisher_labels=true needs batches with {name}; these have {', '.join(batch) or 'nothing'}.")
    return labels


def _upcast(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
