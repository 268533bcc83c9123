"""Choose the depth of the cached prefix: the deepest that stays closed for enough passes over the data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import replace

from gradgate.activation_cache.frozen_prefix import closed_layers, closed_prefix
from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.timeline import Timeline, changes
from gradgate.methods.traits import MethodState


class Horizon:
    """The rule that sets the number of cached layers before each step.

    It depends on the plans alone, so that a resumed training makes the same choices. If the plans are known in advance,
    a prefix must be closed for ``passes`` passes in a row; if a method decides by measurements, it must have been
    closed for one full pass already.
    """

    def __init__(self, method: Method, layers: LayerMap, clock: Clock, seed: int, passes: float) -> None:
        self._layers = layers
        self._foreseen = not method.traits.decides_by_measuring
        epoch = clock.steps_per_epoch
        self._needed = None if epoch is None else epoch * (passes if self._foreseen else 1.0)
        self._starts: list[int] = []
        self._depths: list[int] = []
        self._end = clock.total_steps
        if self._foreseen and self._needed is not None and self._end is not None:
            self._foresee(method, replace(clock, step=0), MethodState(seed=seed))

    def layers_to_keep(self, step: int, timeline: Timeline) -> int:
        """Return the number of layers to cache in the coming step; 0 for none.

        Args:
            step: optimizer steps done.
            timeline: the plans so far, including that of the coming step.
        """
        if self._needed is None:
            return 0
        if not self._foreseen:
            self._starts = [phase.step for phase in timeline.phases]
            self._depths = [self._closed(phase.gates) for phase in timeline.phases]
        if not self._starts or (self._end is not None and step >= self._end):
            return 0
        at = bisect_right(self._starts, step) - 1
        depths = range(self._depths[at], 0, -1)
        return next((depth for depth in depths if self._lasts(depth, at, step)), 0)

    def _lasts(self, depth: int, at: int, step: int) -> bool:
        assert self._needed is not None
        # A prefix stays closed over neighbouring phases as long as their depth is not below it.
        first = last = at
        while first > 0 and self._depths[first - 1] >= depth:
            first -= 1
        if not self._foreseen:
            return step - self._starts[first] >= self._needed
        while last + 1 < len(self._starts) and self._depths[last + 1] >= depth:
            last += 1
        end = self._starts[last + 1] if last + 1 < len(self._starts) else self._end
        return end is not None and end - self._starts[first] >= self._needed

    def _foresee(self, method: Method, clock: Clock, memory: MethodState) -> None:
        for at, plan in changes(method, self._layers, clock, memory):
            depth = closed_layers(closed_prefix(plan, self._layers))
            if not self._depths or self._depths[-1] != depth:
                self._starts.append(at.step)
                self._depths.append(depth)

    def _closed(self, opened: Collection[str]) -> int:
        names = self._layers.at("layer").names
        of_layers = {group.layer for group in self._layers if group.name in opened}
        first = next((index for index, name in enumerate(names) if name in of_layers), len(names))
        return closed_layers(names[:first])
