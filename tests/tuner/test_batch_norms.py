"""Batch norms in closed layers: their running statistics stay, as their weights do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gradgate as gg

WIDTH = 8


class Block(nn.Module):
    def __init__(self, *, affine: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.norm(self.up(x)).relu())


class Normed(nn.Module):
    def __init__(self, *, affine: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(affine=affine) for _ in range(3))
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def statistics(model: nn.Module) -> list[tuple[Tensor, Tensor, int]]:
    norms: list[Any] = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    return [(n.running_mean.clone(), n.running_var.clone(), int(n.num_batches_tracked)) for n in norms]


def moved(model: nn.Module, method: str, **options: Any) -> list[bool]:
    """Whether the statistics of each layer moved in one step of a method, in training mode throughout."""
    before = statistics(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gg.Tuner(model, optimizer, method, **options):
        model(torch.randn(16, WIDTH)).square().mean().backward()
        optimizer.step()
    assert all(module.training for module in model.modules())
    now = statistics(model)
    return [not (a[0].equal(b[0]) and a[1].equal(b[1]) and a[2] == b[2]) for a, b in zip(before, now, strict=True)]


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("frozen_dropout", [True, False])
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("full", [True, True, True]),
        ("head", [False, False, False]),
        ("freeze:layers=2", [False, False, True]),
        ("groups:open=layers.0/head", [True, False, False]),
        ("gradual:every=9,order=bottom-up", [False, False, True]),
    ],
)
def test_statistics_move_where_layers_are_open(
    affine: bool, frozen_dropout: bool, method: str, expected: list[bool]
) -> None:
    assert moved(Normed(affine=affine), method, frozen_dropout=frozen_dropout) == expected


def test_a_frozen_layer_keeps_its_statistics() -> None:
    model = Normed()
    model.blocks[1].requires_grad_(False)
    assert moved(model, "full") == [True, False, True]


def test_statistics_move_after_detaching() -> None:
    model = Normed()
    assert moved(model, "head") == [False] * 3
    before = statistics(model)
    model(torch.randn(16, WIDTH))
    assert all(a[2] != b[2] for a, b in zip(before, statistics(model), strict=True))


def test_a_momentum_network_moves_its_statistics() -> None:
    class Taught(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student, self.momentum = Normed(), Normed().requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.student(x) - self.momentum(x)

    assert moved(Taught(), "head") == [False] * 3 + [True] * 3
