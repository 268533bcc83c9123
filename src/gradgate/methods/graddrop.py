"""Methods that drop a random part of the gradient: single elements or whole layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate import gates
from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.base import OPEN, Gate, Memory, Method, Plan

MaskTarget = Literal["grad", "update"]
PAPER = "GradDrop (Gradient Sparsification for Masked Fine-Tuning of Transformers, O'Neill and Dutta 2023)"


@dataclass(frozen=True, kw_only=True)
class GradDrop(Method):
    """At each step a fresh random share ``p`` of every layer's gradient is zero; the rest is divided by ``1 - p``.

    The embeddings and the head are never masked. Under Adam the factor ``1 / (1 - p)`` nearly cancels; it acts
    through gradient clipping and epsilon.

    Args:
        p: share of gradient elements that are dropped, in [0, 1).
        mask_target: ``grad`` masks the gradient, so that momentum and weight decay may still move a masked
            weight; ``update`` holds masked weights bit-identical through the step.
    """

    name: ClassVar[str] = "graddrop"
    summary: ClassVar[str] = "a random share p of the layers' gradient elements is dropped at each step"
    source: ClassVar[str] = f"{PAPER}, Eq. 3 and 4, Sec. III-A: https://arxiv.org/abs/2307.10098"

    p: float = 0.2
    mask_target: MaskTarget = "grad"

    def __post_init__(self) -> None:
        self._require(p=(0.0 <= self.p < 1.0, "0 <= p < 1; at 1 nothing would ever learn"))

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        gate = Gate(
            lo=self.p,
            scale=1.0 / (1.0 - self.p),
            stream=self.name,
            draw=clock.step,
            hold=self.mask_target == "update",
        )
        masked = {group.name for group in layers.layers}
        return Plan({group.name: gate if group.name in masked else OPEN for group in layers})


@dataclass(frozen=True, kw_only=True)
class LayerGradDrop(Method):
    """Each layer's whole gradient is dropped with probability ``p``, drawn anew for each step or epoch.

    The embeddings and the head always learn. A dropped layer computes no gradient at all.

    Args:
        p: probability that a layer is dropped, in [0, 1).
        mask_target: ``grad`` gives the optimizer a gradient of zero, so that momentum and weight decay may still
            move the layer; ``update`` leaves the layer bit-identical.
        layer_scale: divide the gradient of a kept layer by ``1 - p``; the paper states no factor.
        layer_unit: draw once for each ``batch`` (optimizer step) or once for each ``epoch``.
    """

    name: ClassVar[str] = "layer-graddrop"
    summary: ClassVar[str] = "each layer is dropped as a whole with probability p at each step"
    source: ClassVar[str] = f"{PAPER}, Sec. III-A and IV-2: https://arxiv.org/abs/2307.10098"
    departs: ClassVar[str] = (
        "The paper names one draw per epoch in one place, one per mini-batch in another (layer_unit)."
    )

    p: float = 0.2
    mask_target: MaskTarget = "grad"
    layer_scale: bool = False
    layer_unit: Literal["batch", "epoch"] = "batch"

    def __post_init__(self) -> None:
        self._require(p=(0.0 <= self.p < 1.0, "0 <= p < 1; at 1 nothing would ever learn"))

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        draw = clock.step if self.layer_unit == "batch" else clock.epoch
        kept = Gate(scale=1.0 / (1.0 - self.p)) if self.layer_scale else OPEN
        dropped = Gate(lo=0.0, hi=0.0, hold=self.mask_target == "update")
        plan = {}
        for group in layers:
            is_layer = group in layers.layers
            key = gates.key(seed=memory.seed, stream=self.name, name=group.name, draw=draw)
            plan[group.name] = dropped if is_layer and gates.uniform(key) < self.p else kept if is_layer else OPEN
        return Plan(plan)
