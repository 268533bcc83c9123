"""Unroll the plans of a whole training: what is open when, and what share learns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import yaml

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.methods.base import Method
from gradgate.methods.phases import Phase
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, Traits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the pure Python one takes seconds on long plans


@dataclass
class Timeline:
    """The phases of one training in order; :meth:`record` adds to them while it runs.

    Attributes:
        phases: by rising step.
        method: the text of the method, once the training is described.
        steps: optimizer steps in all.
        groups: names of the model's groups, from the bottom up.
        sizes: group name to number of parameters.
        learns: group name to the share of its elements that learns while it is open, if the method opens only some of
            its weights, as ``bitfit`` does; 1 for all others.
        masked: group name to the share of its elements that a sparse gate masks, if the gate leaves others open, as
            with ``mask_scope=attention``; 1 for all others.
        trainable: group name to the share of its elements that the method can open, if others were frozen before it,
            as under an adapter; 1 for all others.
        traits: what the method does besides opening and closing, such as with the optimizer's state of closed groups.
    """

    phases: list[Phase] = field(default_factory=list)
    method: str = ""
    steps: int = 0
    groups: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    learns: dict[str, float] = field(default_factory=dict)
    masked: dict[str, float] = field(default_factory=dict)
    trainable: dict[str, float] = field(default_factory=dict)
    traits: Traits = field(default_factory=Traits)

    def record(self, step: int, plan: Plan) -> None:
        """Add the plan for the step after ``step`` optimizer steps."""
        phase = Phase.of(step, plan)
        if not self.phases or self.phases[-1].gates != phase.gates:
            self.phases.append(phase)

    def described(self, method: Method, layers: LayerMap, steps: int) -> Timeline:
        """Return the phases up to ``steps`` with the method and the model described: what a run writes."""
        phases = [phase for phase in self.phases if phase.step < steps]
        return Timeline(
            phases,
            method.spec,
            steps,
            layers.names,
            {group.name: group.parameter_count for group in layers},
            single_weights(method, layers),
            _masked_shares(phases, layers),
            _trainable_shares(layers),
            method.traits.followed,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for YAML and JSON."""
        return {
            "method": self.method,
            "steps": self.steps,
            "groups": list(self.groups),
            "sizes": self.sizes,
            **({"learns": self.learns} if self.learns else {}),
            **({"masked": self.masked} if self.masked else {}),
            **({"trainable": self.trainable} if self.trainable else {}),
            **({"traits": traits} if (traits := self.traits.to_dict()) else {}),
            "phases": [phase.to_dict() for phase in self.phases],
        }

    def to_yaml(self) -> str:
        """Return the text of a plan file."""
        text: str = yaml.dump(self.to_dict(), Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=120)
        return text

    def shares(self, columns: int) -> NDArray[np.float64]:
        """Return the share of each group's elements that learns, as the mean over spans of equal length up to one step.

        Returns:
            Shape (groups, min(columns, steps)), from 0 (closed) to 1 (open).
        """
        count = min(columns, self.steps)
        return self.shares_between([self.steps * column // count for column in range(count + 1)])

    def shares_between(self, edges: Sequence[int]) -> NDArray[np.float64]:
        """Return the shares between each two edges, which are numbers of steps; of an empty span, that of its step."""
        import numpy as np

        starts = np.array([*(phase.step for phase in self.phases), self.steps])
        rows = {name: row for row, name in enumerate(self.groups)}
        learning = np.zeros((len(rows), len(self.phases)))
        for column, phase in enumerate(self.phases):
            for name, gate in phase.gates.items():
                masked = self.masked.get(name, 1.0) if gate.share > 0.0 else 1.0
                learning[rows[name], column] = (gate.share * masked + 1.0 - masked) * self.opens(name)
        # Elements and steps that have learned up to the start of each phase, and then up to each edge.
        up_to_phase = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(learning * np.diff(starts), axis=1)], axis=1)
        places = np.clip(np.searchsorted(starts, edges, side="right") - 1, 0, len(self.phases) - 1)
        since = np.maximum(np.asarray(edges) - starts[places], 0)
        up_to_edge = up_to_phase[:, places] + learning[:, places] * since
        widths = np.diff(edges)
        means = np.diff(up_to_edge, axis=1) / np.maximum(widths, 1)
        return np.where(widths > 0, means, learning[:, places[:-1]])

    def of_trainable(self) -> Timeline:
        """Return the timeline of what can learn alone: under an adapter, its weights are all of a group."""
        none = {name: share for name, share in self.trainable.items() if share == 0.0}
        sizes = {name: round(size * self.trainable.get(name, 1.0)) for name, size in self.sizes.items()}
        return replace(self, sizes=sizes, trainable=none)

    def mean_shares(self) -> dict[str, float]:
        """Return the share of each group's elements that learns, as the mean over all steps."""
        means = self.shares_between([0, self.steps])[:, 0]
        return dict(zip(self.groups, means.tolist(), strict=True))

    @property
    def mean_share(self) -> float:
        """The share of all elements that learns, as the mean over all steps; 0.0 if the sizes are unknown."""
        learned = sum(self.sizes.get(group, 0) * mean for group, mean in self.mean_shares().items())
        return learned / max(1, sum(self.sizes.values()))

    @property
    def layers(self) -> dict[str, list[int]]:
        """The groups by layer, as their places in ``groups``: one each in a plan of whole layers."""
        found: dict[str, list[int]] = {}
        for place, group in enumerate(self.groups):
            layer = ".".join(group.split(".")[:2]) if group.startswith("layers.") else group
            found.setdefault(layer, []).append(place)
        return found

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Number of parameters by layer; empty if the sizes are unknown."""
        sizes = self.sizes
        return (
            {layer: sum(sizes[self.groups[place]] for place in at) for layer, at in self.layers.items()}
            if sizes
            else {}
        )

    def folded(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return shares of groups (groups, columns) as shares of layers (layers, columns), weighted by size."""
        import numpy as np

        sizes = np.array([float(self.sizes.get(group) or 1) for group in self.groups])  # 0: nothing in it can learn
        rows = [np.average(shares[places], axis=0, weights=sizes[places]) for places in self.layers.values()]
        return np.array(rows)

    def first_steps(self) -> dict[str, int]:
        """Return the number of steps done when each group first learns, without groups that never do."""
        first: dict[str, int] = {}
        for phase in self.phases:
            for name, gate in phase.gates.items():
                if gate.share * self.opens(name) > 0.0:
                    first.setdefault(name, phase.step)
        return first

    def opens(self, group: str) -> float:
        """Return the share of a group's elements that learns while the group is open."""
        return self.learns.get(group, 1.0) * self.trainable.get(group, 1.0)


def foresee(method: Method, layers: LayerMap, clock: Clock, seed: int = 0) -> Timeline:
    """Return what a method would open when, over ``clock.total_steps`` steps, without training anything.

    Raises:
        MethodError: if the method does not fit the model, or decides by what it measures in training.
    """
    traits = method.traits
    layers = layers.at(traits.unit)
    method.check(layers)
    if traits.decides_by_measuring:
        raise MethodError(
            f"{method.spec!r} decides by what it measures during training, so its plan is not known in advance. "
            f"Read the plan.yaml of a run trained with it."
        )
    timeline = Timeline()
    for at, plan in changes(method, layers, clock, MethodState(seed=seed)):
        timeline.record(at.step, plan)
    return timeline.described(method, layers, clock.known_total)


def single_weights(method: Method, layers: LayerMap) -> dict[str, float]:
    """Return, for each group of which a method opens only some elements, their share among those that may learn."""
    if not layers.weights:  # a map that was made by hand knows no sizes
        return {}
    selection, reached = method.selection(layers), method.reaches(layers)
    found: dict[str, float] = {}
    for group in layers:
        names = [name for name in group.parameter_names if name not in layers.frozen]
        whole = sum(layers.weights[name].count for name in names)
        counts = (layers.weights[n].count if selection is None else selection.count_of(n) for n in names)
        if group.name in reached and (learning := sum(counts)) < whole:
            found[group.name] = learning / whole
    return found


def _trainable_shares(layers: LayerMap) -> dict[str, float]:
    """Return, for each group with parameters that were frozen before, the share of the others."""
    found: dict[str, float] = {}
    for group in layers if layers.frozen and layers.weights else ():
        frozen = sum(layers.weights[name].count for name in group.parameter_names if name in layers.frozen)
        if frozen:
            found[group.name] = 1.0 - frozen / group.parameter_count
    return found


def _masked_shares(phases: Iterable[Phase], layers: LayerMap) -> dict[str, float]:
    """Return, for each group with a sparse gate that leaves some of its parameters open, the share of the others."""
    gates = {name: gate for phase in phases for name, gate in phase.gates.items() if gate.sparse}
    found: dict[str, float] = {}
    for group in layers if layers.weights else ():
        gate = gates.get(group.name)
        if gate is None:
            continue
        weights = [(name, layers.weights[name]) for name in group.parameter_names if name not in layers.frozen]
        masked = sum(weight.count for name, weight in weights if gate.masks(name, len(weight.shape)))
        whole = sum(weight.count for _, weight in weights)
        if masked < whole:
            found[group.name] = masked / whole
    return found


def changes(
    method: Method,
    layers: LayerMap,
    clock: Clock,
    memory: MethodState,
    measure: Callable[[Clock, MethodState], MethodState] = lambda at, memory: memory,
) -> Iterator[tuple[Clock, Plan]]:
    """Yield the plans from a clock to the end of the training, one at each step where they may change.

    Args:
        method: what learns when.
        layers: the model's map, at the method's unit.
        clock: where to begin; its total must be known.
        memory: of the method, before the first step.
        measure: returns the memory with what is measured before the step at a clock; by default nothing is.

    Raises:
        MethodError: if a plan is faulty, or the method names no later step.
    """
    at: Clock | None = clock
    while at is not None:
        memory = measure(at, memory)
        yield at, method.checked_plan(at, layers, memory)
        at = _next_clock(method, layers, at, memory)


def _next_clock(method: Method, layers: LayerMap, clock: Clock, memory: MethodState) -> Clock | None:
    """Return where the plan may change next; None if it stays to the end of the training.

    Raises:
        MethodError: if the method does not name a later step.
    """
    step = method.next_change(clock, layers, memory)
    if step is None or step >= clock.known_total:
        return None
    if step <= clock.step:
        raise MethodError(
            f"{type(method).__name__}.next_change() gives {step} at step {clock.step}. Expected a later step, or None "
            f"if the plan stays."
        )
    return replace(clock, step=step)
