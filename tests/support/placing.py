"""Plain modules whose layers are to be found, and where their parameters went."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradgate.layers import LayerMap


def depth_names(count: int) -> tuple[str, ...]:
    return tuple(f"layers.{i}" for i in range(count))


def places(layer_map: LayerMap, *prefixes: str) -> list[set[str]]:
    """For each prefix the groups that hold the parameters under it."""
    return [{g.name for g in layer_map for name in g.parameter_names if name.startswith(prefix)} for prefix in prefixes]


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(x).relu())


class Backwards(nn.Module):
    """Runs its blocks from the last to the first, and registers its head before all else."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 2)
        self.norm = nn.LayerNorm(8)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.table = nn.Embedding(11, 8)
        self.between = nn.Parameter(torch.ones(8))

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids)
        x = self.blocks[2](x) * self.between
        for block in reversed(self.blocks[:2]):
            x = block(x)
        return self.head(self.norm(x))


class Closed(nn.Module):
    """Nothing says what its forward takes; its lists are known only by name."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(8))
        self.encoder = nn.Module()
        self.encoder.block = nn.ModuleList(Block() for _ in range(3))
        self.encoder.norm = nn.LayerNorm(8)
        self.decoder = nn.Module()
        self.decoder.table = nn.Embedding(5, 8)
        self.decoder.block = nn.ModuleList(Block() for _ in range(2))
        self.out = nn.Linear(8, 2)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        x = first + self.start
        for block in self.encoder.block:
            x = block(x)
        y = self.decoder.table(second) + self.encoder.norm(x)
        for block in self.decoder.block:
            y = block(y)
        return self.out(y)
