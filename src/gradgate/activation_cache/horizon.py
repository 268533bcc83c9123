"""Choose how deep a prefix to cache: the deepest that stays closed for enough passes over the data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import replace

from gradgate.activation_cache.frozen_prefix import closed_layers
from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.timeline import Timeline, changes
from gradgate.methods.traits import MethodState


class Horizon:
    """Chooses the number of layers to cache before each step.

    The choice is a function of the plans alone, so that a resumed training chooses as it did before. If the plans are
    known in advance, a prefix is cached if it stays closed for ``passes`` passes in a row; if a method decides by what
    it measures, once it has been closed for a whole pass.
    """

    def __init__(self, method: Method, layers: LayerMap, clock: Clock, seed: int, passes: float) -> None:
        self._layers, self._names = layers, layers.at("layer").names
        self._foreseen = not method.traits.decides_by_measuring
        epoch = clock.steps_per_epoch
        self._needed = None if epoch is None else epoch * (passes if self._foreseen else 1.0)
        self._starts: list[int] = []
        self._depths: list[int] = []
        self._end = clock.total_steps
        if self._foreseen and self._needed is not None and self._end is not None:
            plans = changes(method, layers, replace(clock, step=0), MethodState(seed=seed))
            self._set((at.step, [name for name, gate in plan.items() if not gate.closed]) for at, plan in plans)

    @property
    def lacking(self) -> list[str]:
        """The numbers of steps that are missing, without which nothing is cached."""
        needed = {"steps_per_epoch=": self._needed, "total_steps=": self._end if self._foreseen else 0}
        return [name for name, value in needed.items() if value is None]

    def layers_to_keep(self, step: int, timeline: Timeline) -> int:
        """Return the number of layers to cache, below the boundary in the coming step; 0 to cache nothing.

        Args:
            step: optimizer steps done.
            timeline: the plans so far, with that of the coming step.
        """
        if self._needed is None:
            return 0
        if not self._foreseen:
            self._set((phase.step, phase.gates) for phase in timeline.phases)
        if not self._starts or (self._end is not None and step >= self._end):
            return 0
        at = bisect_right(self._starts, step) - 1
        depths = range(self._depths[at], 0, -1)
        return next((depth for depth in depths if self._lasts(depth, at, step)), 0)

    def _lasts(self, depth: int, at: int, step: int) -> bool:
        assert self._needed is not None
        first = last = at
        while first > 0 and self._depths[first - 1] >= depth:
            first -= 1
        if not self._foreseen:
            return step - self._starts[first] >= self._needed
        while last + 1 < len(self._starts) and self._depths[last + 1] >= depth:
            last += 1
        end = self._starts[last + 1] if last + 1 < len(self._starts) else self._end
        return end is not None and end - self._starts[first] >= self._needed

    def _set(self, phases: Iterable[tuple[int, Collection[str]]]) -> None:
        """Set the depths of the closed prefix, from the groups that are not closed from each step on."""
        self._starts, self._depths = [], []
        for step, opened in phases:
            depth = self._closed(opened)
            if not self._depths or self._depths[-1] != depth:
                self._starts.append(step)
                self._depths.append(depth)

    def _closed(self, opened: Collection[str]) -> int:
        of_layers = {group.layer for group in self._layers if group.name in opened}
        first = next((index for index, name in enumerate(self._names) if name in of_layers), len(self._names))
        return closed_layers(self._names[:first])
