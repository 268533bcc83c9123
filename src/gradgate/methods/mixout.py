"""Run forward passes with a random part of the weights as it was before the training (Mixout)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.mixins import Modifier
from gradgate.methods.plan import OPEN, Plan
from gradgate.methods.traits import MethodState, MixoutSettings, MixoutUnit, Traits


@dataclass(frozen=True, kw_only=True)
class Mixout(Modifier):
    """Train everything; forward passes in training see a random share ``p`` of each linear layer's initial weights.

    A forward pass uses ``(M * W0 + (1 - M) * W - p * W0) / (1 - p)`` with ``M ~ Bernoulli(p)``, whose expectation is
    the weight W; evaluation uses W. A fresh M is drawn for each optimizer step. W0 is the weight when training
    began, also of an adapter or a new head. Biases, norms, embeddings and the weights of ``nn.MultiheadAttention``
    are not mixed. Needs one more copy of the weights that are mixed, for W0, which is saved with each checkpoint.

    Args:
        p: probability of the initial value, in [0, 1).
        unit: ``neuron`` draws once for all outgoing weights of a neuron, a column of a ``(out, in)`` weight;
            ``element`` once per weight.
        dropout: ``replace`` turns the model's dropout off while the method is attached; ``keep`` leaves it on.
    """

    name: ClassVar[str] = "mixout"
    summary: ClassVar[str] = "each step uses the initial value of a random share p of weights; joins others with '+'"
    source: ClassVar[str] = (
        "AdapterEff (He et al. 2021), Sec. 5, Table 7: https://arxiv.org/abs/2106.03164; "
        "Mixout (Lee et al. 2020): https://arxiv.org/abs/1909.11299"
    )
    deviates: ClassVar[str] = (
        "M is drawn once per optimizer step, not per micro-batch. The gradient is that of the formula; the "
        "mixout authors' code leaves the factor 1 / (1 - p) out of it."
    )

    p: float = 0.9
    unit: MixoutUnit = "neuron"
    dropout: Literal["replace", "keep"] = "replace"

    def __post_init__(self) -> None:
        self._require(p=(0.0 <= self.p < 1.0, "0 <= p < 1; at 1 no weight would ever learn"))

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan(dict.fromkeys(layers.names, OPEN))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return None

    @property
    def traits(self) -> Traits:
        return Traits(mixing=MixoutSettings(self.p, self.unit), dropout_off=self.dropout == "replace")
