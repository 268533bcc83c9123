"""Open whole layers epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.mixins import HasStateOption
from gradgate.methods.traits import MethodState
from gradgate.methods.unfreezing import FreezeEmbeddings, LateOpening


@dataclass(frozen=True, kw_only=True)
class GradFreeze(LateOpening, HasStateOption):
    """Open whole layers once per epoch, from the top or from the bottom; the head always learns.

    Args:
        order: ``top-down`` or ``bottom-up``; the opposite end opens last.
        layers_per_epoch: how many open in each epoch, 1 or more; ``auto`` takes ``ceil(L / T)``, so that all are open
            in the last of T epochs.
        cumulative: keep open what was open; False trains only the newest layers in each epoch.
    """

    name: ClassVar[str] = "gradfreeze"
    summary: ClassVar[str] = "layers open epoch by epoch, from the top down or the bottom up"
    source: ClassVar[str] = (
        "GradDrop (O'Neill and Dutta 2023), Sec. IV-1, V-A-b (GradFreeze): https://arxiv.org/abs/2307.10098"
    )
    deviates: ClassVar[str] = (
        "Layers per epoch and the embeddings are not stated; the text shows 2 per epoch in one place "
        "(layers_per_epoch=2)."
    )

    order: Literal["top-down", "bottom-up"] = "top-down"
    layers_per_epoch: int | Literal["auto"] = "auto"
    cumulative: bool = True
    freeze_embeddings: FreezeEmbeddings = "with_bottom"
    warm_open: int = 0

    def __post_init__(self) -> None:
        right = self.layers_per_epoch == "auto" or self.layers_per_epoch >= 1
        self._require(
            layers_per_epoch=(right, "1 or more, or auto"),
            state=(self.state == "keep" or not self.cumulative, "keep with cumulative=True, which closes nothing"),
        )

    def openings(self, clock: Clock, layers: LayerMap, memory: MethodState) -> dict[int, int]:
        numbers = {group.name: number for number, group in enumerate(layers.layers)}
        opens: dict[int, int] = {}
        for axis in layers.axes:
            order = [numbers[group.name] for group in (axis if self.order == "bottom-up" else axis[::-1])]
            opens |= self._of_axis(order, clock)
        return opens

    def _of_axis(self, order: Sequence[int], clock: Clock) -> dict[int, int]:
        count, epoch = len(order), clock.epoch
        each = -(-count // clock.epochs) if self.layers_per_epoch == "auto" else self.layers_per_epoch
        first = 0 if self.cumulative else min(epoch - 1, (count - 1) // each) * each
        return {order[i]: i // each * clock.known_epoch_length for i in range(first, min(epoch * each, count))}

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        warming = self._is_warming(self.openings(clock, layers, memory).values(), clock)
        return clock.step + 1 if warming else clock.next_epoch
