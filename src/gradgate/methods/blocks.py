"""Train one block of layers at a time, each in its turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate import gates
from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.layers.units import EMBEDDINGS, HEAD
from gradgate.methods.mixins import HasStateOption, HasUnitOption
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, State, Traits
from gradgate.methods.unfreezing import refuse_shared_layers

Ends = Literal["open", "closed"]
Block = tuple[str, ...]
"""The names of groups that open and close together."""


@dataclass(frozen=True, kw_only=True)
class Blocks(HasStateOption, HasUnitOption):
    """Train one block of layers for ``every`` steps, then the next one; each learns once per round.

    A block is ``size`` neighbouring layers, counted from the bottom; the top one may have fewer. After the last block
    a new round begins. With ``state=drop`` the optimizer restarts at each turn, and stores the state of one block.

    Args:
        every: optimizer steps of one turn (BAdam's K), 1 or more. Its authors advise the number of batches in an
            epoch divided by the number of blocks, at least 50 and at most 100.
        order: of the blocks in a round: ``random`` draws a new order for each round; ``top-down`` and ``bottom-up``
            keep the same one.
        size: how many layers, or other units, a block has, 1 or more.
        ends: what happens to the embeddings and the head. ``closed`` keeps the embeddings and an output layer over
            tokens closed; the head of a task, which begins with random weights, always learns. ``open`` trains
            both at all times. ``blocks`` makes each a block of its own, the lowest and the highest, a task's head
            too: with a large ``every`` it waits long for its turn.
        state: as for all methods that close open groups, but ``drop`` by default. HiFT keeps it (``keep``).
    """

    name: ClassVar[str] = "blocks"
    summary: ClassVar[str] = "one block of layers learns at a time, in turn"
    source: ClassVar[str] = (
        "BAdam (Luo et al. 2024), Algorithm 1: https://arxiv.org/abs/2404.02827; HiFT (Liu et al. 2024), Algorithm 1 "
        "(ends=blocks,every=1,state=keep): https://arxiv.org/abs/2401.15207"
    )
    deviates: ClassVar[str] = (
        "BAdam's code does not train a fresh head unless active_modules names it, which its authors advise; here a "
        "task's head always learns, except with ends=blocks. A block that ends one round and begins the next keeps its "
        "state. HiFT draws a random order once, and its learning rate stays the same through a round; here orders are "
        "drawn again, and the schedule of learning rates advances with each step."
    )

    every: int = 100
    order: Literal["random", "top-down", "bottom-up"] = "random"
    size: int = 1
    ends: Literal["closed", "open", "blocks"] = "closed"
    state: State = "drop"

    def __post_init__(self) -> None:
        self._require(
            every=(self.every >= 1, "1 or more optimizer steps"),
            size=(self.size >= 1, f"1 or more {self.unit}s"),
        )

    def check(self, layers: LayerMap) -> None:
        refuse_shared_layers(self, layers)
        if self.size > layers.layer_count:
            raise MethodError(
                f"{self.spec!r} has blocks of {self.size} {self.unit}s, but the model has {layers.layer_count}. "
                f"Use size=1 to {layers.layer_count}; 'full' opens them all."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        blocks = self._blocks(layers)
        turn = clock.step // self.every
        ordered = self._ordered(blocks, turn // len(blocks), memory)
        return Plan.opening(layers, dict.fromkeys((*ordered[turn % len(blocks)], *self._always(layers)), True))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return (clock.step // self.every + 1) * self.every if len(self._blocks(layers)) > 1 else None

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return self._always(layers).union(*self._blocks(layers))

    @property
    def traits(self) -> Traits:
        return replace(super().traits, by_schedule=True)

    def _always(self, layers: LayerMap) -> frozenset[str]:
        return frozenset() if self.ends == "blocks" else open_ends(layers, self.ends)

    def _blocks(self, layers: LayerMap) -> list[Block]:
        """Return the blocks from the bottom, without those that cannot learn, such as a frozen head under LoRA."""
        units = [group.name for group in layers.layers]
        blocks = [tuple(units[first : first + self.size]) for first in range(0, len(units), self.size)]
        if self.ends == "blocks":
            below, above = ([(end,)] if end in layers else [] for end in (EMBEDDINGS, HEAD))
            blocks = [*below, *blocks, *above]
        return [block for block in blocks if any(map(layers.can_learn, block))] or blocks

    def _ordered(self, blocks: list[Block], turn: int, memory: MethodState) -> list[Block]:
        """Return the blocks in the order of one round."""
        if self.order == "random":
            key = {b: gates.key(seed=memory.seed, stream=self.name, name=b[0], draw=turn) for b in blocks}
            return sorted(blocks, key=lambda block: gates.uniform(key[block]))
        return blocks if self.order == "bottom-up" else blocks[::-1]


def open_ends(layers: LayerMap, ends: Ends) -> frozenset[str]:
    """Return which of the embeddings and the head learn at all times.

    Args:
        layers: of the model.
        ends: ``open`` for both. ``closed`` for neither, unless the head is that of a task: then its weights are new,
            and it learns. A head counts as one if the map does not describe its weights.
    """
    there = {EMBEDDINGS, HEAD} & {*layers.names}
    return frozenset(there if ends == "open" else there & {HEAD} if _of_a_task(layers) else ())


def _of_a_task(layers: LayerMap) -> bool:
    """Return whether the head has matrices of its own, and no parameter with one row per token."""
    if HEAD not in layers or not layers.weights:
        return True
    weights = [layers.weights[name] for name in layers[HEAD].parameter_names]
    return any(len(weight.shape) > 1 for weight in weights) and not any(weight.rows for weight in weights)
