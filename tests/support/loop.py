"""A bare training loop over tiny batches, and what moved in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from gradgate import LayerMap, map_layers
from support.tiny_models import TINY, tiny_batch

Weights = dict[str, Tensor]


def build(name: str, *, dropout: bool = False) -> PreTrainedModel:
    """A tiny model, without dropout unless asked for."""
    return TINY[name]().train(dropout)


def adamw(model: nn.Module, lr: float = 1e-2, weight_decay: float = 0.1, **options: Any) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, **options)


def momentum(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=0.1)


_MAPS: WeakKeyDictionary[nn.Module, LayerMap] = WeakKeyDictionary()


def layers_of(model: nn.Module) -> LayerMap:
    """The layer map of a model, made once: a test asks for it in every step."""
    if model not in _MAPS:
        _MAPS[model] = map_layers(model)
    return _MAPS[model]


def batch(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """A tiny batch for a model, also inside PEFT."""
    inner = getattr(model, "get_base_model", lambda: model)()
    return tiny_batch(inner, seed=seed)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, number: int, *, clip: float | None = None) -> None:
    """The step after ``number`` done ones, on a batch of its own."""
    optimizer.zero_grad()
    model(**batch(model, number)).loss.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int | Iterable[int],
    *,
    clip: float | None = None,
    after: Callable[[int], None] = lambda _: None,
) -> None:
    """Steps 0 to ``steps``, or those with the given numbers."""
    for number in range(steps) if isinstance(steps, int) else steps:
        step(model, optimizer, number, clip=clip)
        after(number)


def weights(model: nn.Module) -> Weights:
    """A copy of every parameter; a tied one once."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same bits."""
    return torch.equal(one.detach().view(-1).view(torch.uint8), other.detach().view(-1).view(torch.uint8))


def moved(before: Weights, model: nn.Module) -> set[str]:
    """Names of the parameters that differ in at least one bit."""
    return {name for name, p in model.named_parameters() if not same(before[name], p)}


def learnable(model: nn.Module) -> set[str]:
    """Names of the weight matrices that a batch gives a gradient; the model is left without any.

    A bias may have a gradient of exactly zero: a softmax does not see what is added to all of its inputs.
    """
    model(**batch(model, 0)).loss.backward()
    names = {name for name, p in model.named_parameters() if p.grad is not None and p.dim() > 1}
    model.zero_grad()
    return names


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    """Both models have the same bits in every parameter."""
    assert not moved(weights(one), other)


def fisher_data(model: nn.Module) -> Callable[[int], list[dict[str, Tensor]]]:
    """Batches for the methods that measure the Fisher information."""
    return lambda number: [batch(model, seed) for seed in (number, number + 1)]
