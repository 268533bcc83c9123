"""Scale learning rates layer by layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.layers.units import EMBEDDINGS, HEAD
from gradgate.methods.mixins import Modifier
from gradgate.methods.plan import OPEN, Plan
from gradgate.methods.towers import axes_of, embeddings_follow, layers_of, tower_check
from gradgate.methods.traits import MethodState


@dataclass(frozen=True, kw_only=True)
class RateModifier(Modifier):
    """A method that opens everything and only scales learning rates; ``+`` joins it to any other method."""

    @abstractmethod
    def rates(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Mapping[str, float]:
        """Return the factor, above 0, on the learning rate of each group in the next step. Pure."""

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan({name: replace(OPEN, lr=factor) for name, factor in self.rates(clock, layers, memory).items()})


@dataclass(frozen=True, kw_only=True)
class LayerwiseRates(RateModifier):
    """Train each layer ``decay`` times as fast as the one above it: discriminative fine-tuning.

    The head has the optimizer's learning rate, the top layer ``decay`` times that, and so on down to the embeddings,
    ``decay ** (L + 1)`` with L layers. In a model without a head the top layer has the optimizer's learning rate. If
    several networks run side by side, the rates fall along each, and L is the number of layers of the longest.

    Args:
        decay: factor from one layer to the next below, in (0, 1].
        tower: ``vision``, ``audio``, ``projector``, ``text``, ``encoder``, ``decoder`` or the name of a network: the
            rates fall only along that tower, ``decay`` at its top layer, and all else has the optimizer's rate.
    """

    name: ClassVar[str] = "layerwise-lr"
    summary: ClassVar[str] = "everything learns, lower layers slower; joins any method with '+'"
    source: ClassVar[str] = "ULMFiT (Howard and Ruder 2018), Sec. 3.2: https://arxiv.org/abs/1801.06146"
    deviates: ClassVar[str] = (
        "The paper's 1/2.6 is for its LSTM of 3 layers and nearly stops the lower of 12; transformers are commonly "
        "tuned with decay=0.8 to 0.95."
    )

    decay: float = 1 / 2.6
    tower: str = ""

    def __post_init__(self) -> None:
        self._require(decay=(0.0 < self.decay <= 1.0, "0 < decay <= 1"), tower=tower_check(self.tower))

    def check(self, layers: LayerMap) -> None:
        layers_of(self, layers)

    def rates(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Mapping[str, float]:
        whole = layers.at("layer")
        axes = axes_of(self, whole)
        lowest = 1 if self.tower or HEAD in layers else 0  # without a head, the top layer has the full rate
        depths = {g.name: depth for axis in axes for depth, g in enumerate(reversed(axis), lowest)}
        if EMBEDDINGS in whole and embeddings_follow(self, whole):
            depths[EMBEDDINGS] = max(depths.values(), default=lowest - 1) + 1
        return {group.name: self.decay ** depths.get(group.layer, 0) for group in layers}

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None
