"""What was open when: the plans of a training, run-length encoded, as text that people can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.base import Memory, Method, Plan


@dataclass(frozen=True)
class Phase:
    """Steps in a row with the same groups open.

    Attributes:
        step: optimizer steps done when the phase begins.
        open: names of the groups that learn as a whole, from the bottom up.
        sparse: group name to the window and factor of a gate that lets a part pass.
    """

    step: int
    open: tuple[str, ...]
    sparse: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, step: int, plan: Plan) -> Phase:
        """The phase that begins with this plan."""
        return cls(
            step,
            tuple(name for name, gate in plan.items() if gate.open),
            {name: {"lo": gate.lo, "hi": gate.hi, "scale": gate.scale} for name, gate in plan.items() if gate.sparse},
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Phase:
        """The inverse of :meth:`to_dict`."""
        return cls(record["step"], tuple(record["open"]), dict(record.get("sparse", {})))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML and JSON; groups that are not named are closed."""
        record: dict[str, Any] = {"step": self.step, "open": list(self.open)}
        return {**record, "sparse": dict(self.sparse)} if self.sparse else record

    def same_groups(self, other: Phase) -> bool:
        """Whether two phases differ in their first step alone."""
        return (self.open, self.sparse) == (other.open, other.sparse)


class Timeline:
    """The phases of one training in order."""

    def __init__(self, phases: list[Phase] | None = None) -> None:
        self.phases = phases or []

    def record(self, step: int, plan: Plan) -> None:
        """Note the plan for the step after ``step`` done ones."""
        phase = Phase.of(step, plan)
        if not self.phases or not self.phases[-1].same_groups(phase):
            self.phases.append(phase)

    def to_dict(self, method: Method, layers: LayerMap, steps: int) -> dict[str, Any]:
        """The record that is written beside a run: method, groups with their sizes, and the phases before ``steps``."""
        return {
            "method": method.spec,
            "steps": steps,
            "groups": list(layers.names),
            "sizes": {group.name: group.parameter_count for group in layers},
            "phases": [phase.to_dict() for phase in self.phases if phase.step < steps],
        }


def foresee(method: Method, layers: LayerMap, clock: Clock, seed: int = 0) -> Timeline:
    """What a method would open when, over ``clock.total_steps`` steps, without training anything."""
    method.check(layers)
    if type(method).measures is not Method.measures:
        raise MethodError(f"{method.spec!r} decides by what it measures in training, so its plan is not known before.")
    timeline = Timeline()
    memory = Memory(seed=seed)
    for _ in range(clock.known_total):
        timeline.record(clock.step, method.checked_plan(clock, layers, memory))
        clock = clock.ticked()
    return timeline
