"""Let Adam update only the weights with the largest momentum (MoFO)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.plan import OPEN, Gate, Plan
from gradgate.methods.traits import MethodState


@dataclass(frozen=True, kw_only=True)
class MoFO(Method):
    """Update only the share ``alpha`` of each matrix with the largest momentum in each step of Adam; hold the rest.

    Gradients pass whole, and Adam updates both moments of every element, so that other elements may be updated in the
    next step. What is not updated is bit-identical after the step, weight decay included. Biases, norms and other
    vectors learn as a whole. Needs Adam or AdamW.

    Args:
        alpha: share of the elements of each matrix, in (0, 1]; rounded down, at least one.
    """

    name: ClassVar[str] = "mofo"
    summary: ClassVar[str] = "each step of Adam updates only the weights with the largest momentum"
    source: ClassVar[str] = "MoFO (Chen et al. 2024), Algorithm 1: https://arxiv.org/abs/2407.20999"
    deviates: ClassVar[str] = (
        "The authors' code applies weight decay to every element, here only to what is updated. It filters each "
        "parameter whose name has neither bias nor norm, here each matrix. It updates all elements that are equal at "
        "the threshold, here those that come first. It recommends 5 to 20 % and defaults to 3 %."
    )

    alpha: float = 0.15

    def __post_init__(self) -> None:
        self._require(alpha=(0.0 < self.alpha <= 1.0, "0 < alpha <= 1"))

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        filtered = Gate(lo=0.0, hi=self.alpha, stream=self.name, momentum=True) if self.alpha < 1.0 else OPEN
        return Plan(dict.fromkeys(layers.names, filtered))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None
