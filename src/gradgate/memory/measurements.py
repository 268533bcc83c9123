"""Estimate the memory of a method's measurements before a step: Fisher traces, and the choice of weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.layers import LayerMap
from gradgate.measure import FisherRequest, Labels, Request, ScoreRequest, SelectionRequest
from gradgate.measure.likelihood import OutputForm
from gradgate.memory.open_pattern import OpenPattern
from gradgate.memory.passes import Loss, Passes
from gradgate.memory.shrunken import LayerStack
from gradgate.memory.usage import Usage
from gradgate.memory.workload import Workload
from gradgate.methods.base import Method
from gradgate.methods.plan import CLOSED, OPEN, Plan
from gradgate.tuner.gating import Gating

Key = tuple[bool, Labels, bool]
_FLOAT32 = 4
# Bytes per element: two float32 numbers, and the check that they are finite (a bool, |x| in float32, a bool).
_CHOOSING = 14
# Bytes per element of one matrix at a time: its values in float32, sizes or singular vectors, and the comparison.
_ONE_MATRIX = 16


class Measurements:
    """Estimates the peaks of measurements on one model.

    Args:
        model: as for :class:`Passes`.
        layers: its map, at the method's unit.
        method: the one that measures.
        workload: of the training; a measurement stores all activations.
        stacks: the layers that can be left out.
        gating: of the complete model.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: LayerMap,
        method: Method,
        workload: Workload,
        stacks: list[LayerStack],
        gating: Gating,
    ) -> None:
        self._layers, self._gating = layers, gating
        self._buffers = 2 * sum(buffer.nbytes for buffer in model.buffers())
        work = replace(workload, checkpointing=False)  # a measurement does not recompute activations

        def passes(key: Key) -> Passes:
            evaluating, labels, choosing = key
            loss = Loss(partial(_likelihood, labels), training=not evaluating, retained=not choosing)
            return Passes(model, layers, method, work, stacks, loss)

        self._passes = passes
        self._made: dict[Key, Passes] = {}

    def peaks(self, request: Request, now: Usage) -> Iterator[Usage]:
        """Yield the usage at the peaks of a measurement that begins with the usage ``now``."""
        inner = request.scores if isinstance(request, SelectionRequest) else request
        names = {name for group in inner.groups for name in self._gating.groups[group]}
        sizes = {name: self._gating.parameters[name].numel() for name in names}
        largest, choosing = max(sizes.values(), default=0), isinstance(request, SelectionRequest)
        scored = inner.of if isinstance(inner, ScoreRequest) else ""
        if isinstance(inner, FisherRequest | ScoreRequest) and scored != "weight":
            before = now.plus(activations=self._buffers + (_FLOAT32 * sum(sizes.values()) if choosing else 0))
            if choosing and (inner.batches is None or inner.batches > 1):  # the gradients of the batch before
                before = before.plus(gradients=sum(self._gating.parameters[name].nbytes for name in names))
            yield from self._derived(inner, before, choosing, largest)
        if isinstance(request, SelectionRequest) and request.within == "all":
            yield replace(now.plus(activations=_CHOOSING * sum(sizes.values())), at="forward")
        else:
            summed = _FLOAT32 * sum(sizes.values()) if scored == "gradient" else 0
            yield replace(now.plus(activations=summed + _ONE_MATRIX * largest), at="forward")

    def _derived(
        self, request: FisherRequest | ScoreRequest, now: Usage, choosing: bool, largest: int
    ) -> Iterator[Usage]:
        """Yield the usage at the peaks of the passes through the groups of a request."""
        plan = Plan({name: OPEN if name in request.groups else CLOSED for name in self._gating.groups})
        key = request.eval_mode, request.labels, choosing
        if key not in self._made:
            self._made[key] = self._passes(key)
        yield from self._passed(OpenPattern(plan, self._gating, self._layers), now, key, largest)

    def _passed(self, pattern: OpenPattern, now: Usage, key: Key, largest: int) -> Iterator[Usage]:
        for segment in self._made[key].trace(pattern).segments:
            others = segment.peak - segment.gradients_at_peak
            yield replace(now.plus(gradients=segment.gradients_at_peak, activations=others), at=segment.at)
            now = now.plus(gradients=segment.gradients, activations=segment.delta - segment.gradients)
        yield replace(now.plus(activations=_FLOAT32 * largest), at="backward")


def _likelihood(labels: Labels, model: Any, output: Any) -> Tensor:
    """Compute log p(y|x) like :func:`gradgate.measure.likelihood.log_likelihoods`, without reading values."""
    logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
    if logits.dim() == 3:
        logits = (logits[:, :-1] if OutputForm.of(model).causal else logits).reshape(-1, logits.shape[-1]).clone()
    plain = logits.detach()
    chosen = _drawn(plain) if labels == "sample" else plain[..., 0].long() if labels == "true" else plain.argmax(dim=-1)
    scores = torch.log_softmax(logits, dim=-1)
    return scores.gather(-1, chosen.unsqueeze(-1)).mean()


def _drawn(logits: Tensor) -> Tensor:
    shares = logits.double().softmax(dim=-1)
    torch.isfinite(shares)
    return torch.searchsorted(shares.cumsum(dim=-1), shares[:, :1].clone(), right=True).squeeze(-1)
