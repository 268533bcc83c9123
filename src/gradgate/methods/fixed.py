"""Methods whose plan never changes: everything, the head, the upper layers, the biases, or named groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.errors import MethodError, nearest
from gradgate.layers import LayerMap
from gradgate.layers.units import AnyTower
from gradgate.methods.base import Memory, Method, Plan
from gradgate.methods.towers import embeddings_follow, layers_of


@dataclass(frozen=True, kw_only=True)
class Fixed(Method):
    """A method that opens the same groups at every step."""

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        return Plan.opening(layers, dict.fromkeys(self.reaches(layers), True))

    def next_change(self, clock: Clock, layers: LayerMap, memory: Memory) -> int | None:
        return None


@dataclass(frozen=True, kw_only=True)
class Full(Fixed):
    """Every parameter learns at every step: standard fine-tuning."""

    name: ClassVar[str] = "full"
    summary: ClassVar[str] = "every parameter learns, always"
    source: ClassVar[str] = "standard fine-tuning; the baseline of all five papers"


@dataclass(frozen=True, kw_only=True)
class Head(Fixed):
    """Only the head learns: linear probing where the head is one layer.

    The head is all that runs after the top layer: a pooler and a final norm belong to it.
    """

    name: ClassVar[str] = "head"
    summary: ClassVar[str] = "only the head learns"
    source: ClassVar[str] = "What would Elsa do? (Lee et al. 2019), Sec. 3 with N = L: https://arxiv.org/abs/1911.03090"

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return frozenset({"head"})


@dataclass(frozen=True, kw_only=True)
class Freeze(Fixed):
    """The embeddings and the lowest ``layers`` layers are closed; the rest learns at every step.

    Args:
        layers: how many layers are closed, from 0 (embeddings only) to the number of layers (head only), or ``all``.
        tower: ``vision``, ``audio``, ``projector``, ``text``, ``encoder`` or ``decoder``: count the layers of that
            tower alone, and leave the others open. The embeddings are closed if they are that tower's own.
    """

    name: ClassVar[str] = "freeze"
    summary: ClassVar[str] = "embeddings and the lowest N layers are closed"
    source: ClassVar[str] = "What would Elsa do? (Lee et al. 2019), Sec. 3: https://arxiv.org/abs/1911.03090"

    layers: int | Literal["all"]
    tower: AnyTower = ""

    def __post_init__(self) -> None:
        self._require(layers=(self.layers == "all" or self.layers >= 0, "0 or more"))

    def check(self, layers: LayerMap) -> None:
        count = len(layers_of(self, layers))
        if self.layers != "all" and self.layers > count:
            where, end = ("tower", "closes all of it") if self.tower else ("model", "trains the head alone")
            raise MethodError(
                f"{self.spec!r} asks for {self.layers} closed layers, but the {where} has {count}. "
                f"Give 0 to {count}; {count} {end}."
            )

    def closed_of(self, count: int) -> int:
        """How many of ``count`` layers are closed."""
        return count if self.layers == "all" else self.layers

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        of_tower = layers_of(self, layers)
        closed = {group.name for group in of_tower[: self.closed_of(len(of_tower))]}
        if embeddings_follow(self, layers):
            closed.add("embeddings")
        return frozenset({*layers.names, "head"} - closed)


@dataclass(frozen=True, kw_only=True)
class BitFit(Fixed):
    """Only the biases and the head learn."""

    name: ClassVar[str] = "bitfit"
    summary: ClassVar[str] = "only the biases and the head learn"
    source: ClassVar[str] = "BitFit (Ben Zaken et al. 2022), Sec. 3: https://arxiv.org/abs/2106.10199"

    def trains(self, parameter_name: str, group: str) -> bool:
        return group == "head" or parameter_name.rpartition(".")[2] == "bias"


@dataclass(frozen=True, kw_only=True)
class NamedGroups(Fixed):
    """Only the groups that are named learn.

    Args:
        open: group names such as ``embeddings/layers.0/head``; ``layers`` stands for every layer.
    """

    name: ClassVar[str] = "groups"
    summary: ClassVar[str] = "only the named groups learn"
    source: ClassVar[str] = "freezing by hand"

    open: tuple[str, ...]

    def __post_init__(self) -> None:
        self._require(open=(bool(self.open), "at least one group, such as layers.0/head"))

    def check(self, layers: LayerMap) -> None:
        unknown = [name for name in self.open if name != "layers" and name not in layers.names]
        if unknown:
            raise MethodError(
                f"{self.spec!r}: this model has no group {unknown[0]!r}.{nearest(unknown[0], layers.names)} "
                f"Its groups are {', '.join(layers.names)}."
            )

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        every_layer = {group.name for group in layers.layers} if "layers" in self.open else set()
        return frozenset(every_layer | set(self.open)) - {"layers"}
