"""Train a random half of the matrices of each category in every layer (half fine-tuning)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradgate import gates
from gradgate.clock import Clock
from gradgate.layers import LayerMap, Unit
from gradgate.methods.blocks import Ends, open_ends
from gradgate.methods.mixins import HasStateOption, HasUnitOption
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState


@dataclass(frozen=True, kw_only=True)
class HFT(HasStateOption, HasUnitOption):
    """Train a random half of each layer's matrices in each round, chosen by category, such as attention.

    If their number is odd, as with the three matrices of a gated feed-forward block, one half of the layers trains the
    larger half of them and the other layers the smaller one; these layers are drawn as well. Biases follow their
    matrix, and norms are a category of their own.

    Args:
        every: optimizer steps of a round, after which new halves are drawn; 0 for one round: the same half through
            the whole training.
        ends: ``open`` trains the embeddings and the head at all times; ``closed`` keeps the embeddings and an output
            layer over tokens closed, while the head of a task, which begins with random weights, learns.
        unit: what is drawn: ``module`` is the paper's choice by category, in each layer; ``part`` draws half of the
            layers for each of their parts, and ``layer`` half of the layers.
    """

    name: ClassVar[str] = "hft"
    summary: ClassVar[str] = "in each layer a random half of the matrices of each category learns"
    source: ClassVar[str] = "HFT (Hui et al. 2024), selection by category: https://arxiv.org/abs/2404.18466"
    deviates: ClassVar[str] = (
        "A round of the paper is one stage of training or one task, as with every=0. It names the four matrices of "
        "attention, the three of feed-forward blocks, and norms; here each part of a layer is a category, whatever "
        "it holds. Embeddings and head learn, as in the paper (ends=open)."
    )

    every: int = 0
    ends: Ends = "open"
    unit: Unit = "module"

    def __post_init__(self) -> None:
        self._require(every=(self.every >= 0, "1 or more optimizer steps, or 0 for one round"))

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        turn = clock.step // self.every if self.every else 0

        def draw(name: str) -> float:
            return gates.uniform(gates.key(seed=memory.seed, stream=self.name, name=name, draw=turn))

        opened = set(open_ends(layers, self.ends))
        for category, by_layer in _categories(layers).items():
            odd = [layer for layer, members in by_layer.items() if len(members) % 2]
            larger = sorted(odd, key=lambda layer: draw(f"{layer}/{category}"))[: (len(odd) + 1) // 2]
            for layer, members in by_layer.items():
                opened.update(sorted(members, key=draw)[: (len(members) + (layer in larger)) // 2])
        return Plan.opening(layers, dict.fromkeys(opened, True))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return (clock.step // self.every + 1) * self.every if self.every else None

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        """Return all layers that can learn: which half is drawn depends on the seed."""
        able = (group.name for group in layers.layers if layers.can_learn(group.name))
        return open_ends(layers, self.ends).union(able)


def _categories(layers: LayerMap) -> dict[str, dict[str, list[str]]]:
    """Return category to layer to its groups that can learn; the same part of another tower is another category."""
    found: dict[str, dict[str, list[str]]] = {}
    for group in layers.layers:
        if layers.can_learn(group.name):
            part = group.name.removeprefix(group.layer).removeprefix(".").partition(".")[0]
            found.setdefault(f"{group.tower}:{part}", {}).setdefault(group.layer, []).append(group.name)
    return found
