"""Scale learning rates layer by layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.layers.units import EMBEDDINGS, AnyTower
from gradgate.methods.mixins import Modifier
from gradgate.methods.plan import OPEN, Plan
from gradgate.methods.towers import embeddings_follow, layers_of
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
    ``decay ** (L + 1)`` with L layers. In a model without a head the top layer has the optimizer's learning rate.

    Args:
        decay: factor from one layer to the next below, in (0, 1].
        tower: ``vision``, ``audio``, ``projector``, ``text``, ``encoder`` or ``decoder``: the rates fall only along
            that tower, ``decay`` at its top layer, and all else has the optimizer's learning rate.
    """

    name: ClassVar[str] = "layerwise-lr"
    summary: ClassVar[str] = "everything learns, lower layers slower; joins any method with '+'"
    source: ClassVar[str] = "ULMFiT (Howard and Ruder 2018), Sec. 3.2: https://arxiv.org/abs/1801.06146"
    deviates: ClassVar[str] = (
        "The paper's 1/2.6 is for its LSTM of 3 layers and nearly stops the lower of 12; transformers are commonly "
        "tuned with decay=0.8 to 0.95."
    )

    decay: float = 1 / 2.6
    tower: AnyTower = ""

    def __post_init__(self) -> None:
        self._require(decay=(0.0 < self.decay <= 1.0, "0 < decay <= 1"))

    def check(self, layers: LayerMap) -> None:
        layers_of(self, layers)

    def rates(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Mapping[str, float]:
        if self.tower:
            own = [EMBEDDINGS] if embeddings_follow(self, layers) else []
            own += [group.name for group in layers_of(self, layers.at("layer"))]
            rates = {name: self.decay**height for height, name in enumerate(own[::-1], 1)}
            return {group.name: rates.get(group.layer, 1.0) for group in layers}
        heights = {layer: height for height, layer in enumerate(layers.at("layer").names)}
        top = len(heights) - 1
        return {group.name: self.decay ** (top - heights[group.layer]) for group in layers}

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None
