"""GradDrop by epoch: one mask for all steps of an epoch, drawn without replacement over the epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.base import Gate, Memory, Method, Plan
from gradgate.methods.graddrop import LINK, PAPER, MaskTarget, masked_layers


@dataclass(frozen=True, kw_only=True)
class GradDropEpoch(Method):
    """Each weight of the layers is released in a random epoch and learns from then on; in the last epoch all do.

    Args:
        epoch_release: ``equal`` releases a share e/T by epoch e of T; ``hazard`` releases each closed weight with
            probability ``1 - p`` in each epoch and the rest in the last one; ``resample`` draws a new independent
            mask with rate ``p`` for each epoch.
        p: rate of ``hazard`` and ``resample``, in [0, 1); ``equal`` does not use it.
        epoch_scale: divide the gradient of what is active by its expected share; the paper states no factor.
        mask_target: ``update`` (default) leaves what is not released bit-identical; ``grad`` masks its gradient.
    """

    name: ClassVar[str] = "graddrop-epoch"
    summary: ClassVar[str] = "weights of the layers are released at random over the epochs and stay active"
    source: ClassVar[str] = f"{PAPER}, Sec. III-B, Fig. 1: {LINK}"
    departs: ClassVar[str] = "The paper does not say how many weights each epoch releases (epoch_release)."

    epoch_release: Literal["equal", "hazard", "resample"] = "equal"
    p: float = 0.2
    epoch_scale: bool = False
    mask_target: MaskTarget = "update"

    def __post_init__(self) -> None:
        self._require(p=(0.0 <= self.p < 1.0, "0 <= p < 1"))

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        lo, hi, draw = self._window(clock)
        return masked_layers(_epoch_gate(lo, hi, draw, self), layers)

    def _window(self, clock: Clock) -> tuple[float, float, int]:
        epoch, epochs = clock.epoch, clock.epochs
        if self.epoch_release == "resample":
            return self.p, 1.0, epoch
        if epoch == epochs:
            return 0.0, 1.0, 0
        return 0.0, epoch / epochs if self.epoch_release == "equal" else 1.0 - self.p**epoch, 0


@dataclass(frozen=True, kw_only=True)
class GradDropEpochToggle(Method):
    """Each weight of the layers learns in one random epoch alone; never the whole network at once.

    Args:
        epoch_scale, mask_target: as for :class:`GradDropEpoch`.
    """

    name: ClassVar[str] = "graddrop-epoch-toggle"
    summary: ClassVar[str] = "each weight of the layers learns in one random epoch alone"
    source: ClassVar[str] = f"{PAPER}, Sec. III-B, Fig. 1: {LINK}"

    epoch_scale: bool = False
    mask_target: MaskTarget = "update"

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        epoch, epochs = clock.epoch, clock.epochs
        return masked_layers(_epoch_gate((epoch - 1) / epochs, epoch / epochs, 0, self), layers)


def _epoch_gate(lo: float, hi: float, draw: int, method: GradDropEpoch | GradDropEpochToggle) -> Gate:
    return Gate(
        lo=lo,
        hi=hi,
        scale=1.0 / (hi - lo) if method.epoch_scale else 1.0,
        stream=method.name,
        draw=draw,
        hold=method.mask_target == "update",
    )
