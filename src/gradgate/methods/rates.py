"""Learning rates that differ between layers, and their combination with methods that open and close."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.fisher import FisherRequest
from gradgate.layers import LayerMap
from gradgate.methods.base import OPEN, Memory, Method, Plan, State


@dataclass(frozen=True, kw_only=True)
class RateMethod(Method):
    """A method that opens everything and only scales learning rates; it can be combined with any other method."""

    @abstractmethod
    def rates(self, clock: Clock, layers: LayerMap, memory: Memory) -> Mapping[str, float]:
        """The factor, above 0, on the learning rate of each group in the step that comes next. Pure."""

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        return Plan({name: replace(OPEN, lr=factor) for name, factor in self.rates(clock, layers, memory).items()})


@dataclass(frozen=True, kw_only=True)
class LayerwiseRates(RateMethod):
    """Discriminative fine-tuning: each layer learns ``decay`` times as fast as the one above it.

    The head has the optimizer's learning rate, the top layer ``decay`` times that, and so on down to the embeddings,
    ``decay ** (L + 1)`` with L layers. In a model without a head the top layer has the optimizer's learning rate.

    Args:
        decay: factor from one layer to the next below, in (0, 1].
    """

    name: ClassVar[str] = "layerwise-lr"
    summary: ClassVar[str] = "everything learns, lower layers slower; joins any method with '+'"
    source: ClassVar[str] = "ULMFiT (Howard and Ruder 2018), Sec. 3.2: https://arxiv.org/abs/1801.06146"
    departs: ClassVar[str] = (
        "The paper's 1/2.6 is for its LSTM of 3 layers and all but stops the lower of 12; transformers are commonly "
        "tuned with decay=0.8 to 0.95."
    )

    decay: float = 1 / 2.6

    def __post_init__(self) -> None:
        self._require(decay=(0.0 < self.decay <= 1.0, "0 < decay <= 1"))

    def rates(self, clock: Clock, layers: LayerMap, memory: Memory) -> Mapping[str, float]:
        top = len(layers.names) - 1
        return {name: self.decay ** (top - height) for height, name in enumerate(layers.names)}


@dataclass(frozen=True, kw_only=True)
class Combined(Method):
    """The first method decides what learns; the others scale the learning rate of what it opens.

    Args:
        methods: two or more, all but the first derived from :class:`RateMethod`; ``first+second`` as text.
    """

    name: ClassVar[str] = "combined"
    summary: ClassVar[str] = "methods joined by '+': the first opens and closes, the others scale learning rates"
    source: ClassVar[str] = "see the methods that are joined"

    methods: tuple[Method, ...]

    def __post_init__(self) -> None:
        deciding = [method.spec for method in self.methods[1:] if not isinstance(method, RateMethod)]
        if deciding or len(self.methods) < 2:
            what = f"{deciding[0]!r} decides that as well" if deciding else "there is no second method"
            raise MethodError(
                f"{self.spec!r} cannot be: the first method of a combination decides what learns, and those after '+' "
                f"may only scale learning rates, such as layerwise-lr; {what}."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        gates = dict(self._deciding.plan(clock, layers, memory))
        for method in self.methods[1:]:
            for name, factor in method.plan(clock, layers, memory).items():
                gates[name] = gates[name] if gates[name].closed else replace(gates[name], lr=gates[name].lr * factor.lr)
        return Plan(gates)

    def check(self, layers: LayerMap) -> None:
        for method in self.methods:
            method.check(layers)

    def trains(self, parameter_name: str, group: str) -> bool:
        return self._deciding.trains(parameter_name, group)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return self._deciding.reaches(layers)

    def measures(self, clock: Clock, layers: LayerMap, memory: Memory) -> FisherRequest | None:
        return self._deciding.measures(clock, layers, memory)

    def learned(self, scores: dict[str, float], clock: Clock, memory: Memory) -> Memory:
        return self._deciding.learned(scores, clock, memory)

    @property
    def decides_by_measuring(self) -> bool:
        return self._deciding.decides_by_measuring

    @property
    def state_of_closed(self) -> State:
        return self._deciding.state_of_closed

    @property
    def spec(self) -> str:
        return "+".join(method.spec for method in self.methods)

    @property
    def _deciding(self) -> Method:
        return self.methods[0]
