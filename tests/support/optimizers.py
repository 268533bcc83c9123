"""Muon for the matrices of a model's layers and AdamW for the rest: a training with two optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from gradgate import map_layers
from gradgate.layers import named_parameters
from support.loop import batch


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """What Muon is for: the matrices inside the layers."""
    inside = {name for group in map_layers(model).layers for name in group.parameter_names}
    return [p for name, p in named_parameters(model).items() if name in inside and p.dim() == 2]


def others(model: nn.Module) -> list[nn.Parameter]:
    held = {id(parameter) for parameter in matrices(model)}
    return [parameter for parameter in model.parameters() if id(parameter) not in held]


def muon_and_adamw(model: nn.Module, lr: float = 1e-2) -> list[torch.optim.Optimizer]:
    muon = pytest.importorskip("torch", minversion="2.9").optim.Muon(matrices(model), lr=lr, weight_decay=0.1)
    return [muon, torch.optim.AdamW(others(model), lr=lr, weight_decay=0.1)]


class Joined(torch.optim.Optimizer):
    """One optimizer that steps two, as the factories that Trainer takes build it."""

    def __init__(self, muon: torch.optim.Optimizer, adamw: torch.optim.Optimizer) -> None:
        self.muon, self.adamw = muon, adamw
        super().__init__([*muon.param_groups, *adamw.param_groups], {})
        self.param_groups = [*muon.param_groups, *adamw.param_groups]

    def step(self, closure: Any = None) -> None:
        self.muon.step()
        self.adamw.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for one in (self.muon, self.adamw):
            one.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]


class Factory:
    """Called by Trainer with the model when it builds its optimizer."""

    def __call__(self, model: PreTrainedModel, **options: Any) -> Joined:
        return Joined(*muon_and_adamw(model, **options))


def backward(model: nn.Module, number: int) -> None:
    """New gradients, of a batch with this number, in place of the old ones."""
    model.zero_grad()
    model(**batch(model, number)).loss.backward()


def train_with(model: nn.Module, optimizers: Iterable[torch.optim.Optimizer], numbers: Iterable[int]) -> None:
    """Step every optimizer on each of the batches with these numbers."""
    chosen = list(optimizers)
    for number in numbers:
        backward(model, number)
        for optimizer in chosen:
            optimizer.step()
