"""Plans of whole trainings: what is open when, the file that holds it, and the method that follows the file."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from gradgate.clock import Clock
from gradgate.errors import MethodError, RunError, nearest
from gradgate.files import parse_yaml, read_bytes, remedy
from gradgate.layers import LayerMap, Unit
from gradgate.methods.base import Memory, Method
from gradgate.methods.phases import Phase
from gradgate.methods.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the pure Python one takes seconds on long plans
_EXPECTED = "Expected 'phases:' with entries such as {step: 0, open: [head]}; 'gradgate plan --write FILE' writes one."


@dataclass
class Timeline:
    """The phases of one training in order; :meth:`record` adds to them while it runs.

    Attributes:
        phases: by rising step.
        method: the text of the method, once the training is described.
        steps: optimizer steps in all.
        groups: names of the model's groups, from the bottom up.
        sizes: group name to number of parameters.
        learns: group name to the share of its elements that learns while it is open, where the method opens single
            weights of it, as ``bitfit`` does; 1 of the others.
    """

    phases: list[Phase] = field(default_factory=list)
    method: str = ""
    steps: int = 0
    groups: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    learns: dict[str, float] = field(default_factory=dict)

    def record(self, step: int, plan: Plan) -> None:
        """Note the plan for the step after ``step`` done ones."""
        phase = Phase.of(step, plan)
        if not self.phases or self.phases[-1].gates != phase.gates:
            self.phases.append(phase)

    def described(self, method: Method, layers: LayerMap, steps: int) -> Timeline:
        """These phases as those of a method on a model, up to ``steps``: what a run writes down."""
        return Timeline(
            [phase for phase in self.phases if phase.step < steps],
            method.spec,
            steps,
            layers.names,
            {group.name: group.parameter_count for group in layers},
            single_weights(method, layers),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML and JSON."""
        return {
            "method": self.method,
            "steps": self.steps,
            "groups": list(self.groups),
            "sizes": self.sizes,
            **({"learns": self.learns} if self.learns else {}),
            "phases": [phase.to_dict() for phase in self.phases],
        }

    def to_yaml(self) -> str:
        """The text of a plan file."""
        text: str = yaml.dump(self.to_dict(), Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=120)
        return text

    def shares(self, columns: int) -> NDArray[np.float64]:
        """The share of each group's elements that learns, as the mean over stretches of equal length up to one step.

        Returns:
            Shape (groups, min(columns, steps)), from 0 (closed) to 1 (open).
        """
        count = min(columns, self.steps)
        return self.shares_between([self.steps * column // count for column in range(count + 1)])

    def shares_between(self, edges: Sequence[int]) -> NDArray[np.float64]:
        """The same between each two edges, which are numbers of steps; of an empty stretch, that of its step."""
        import numpy as np

        starts = np.array([*(phase.step for phase in self.phases), self.steps])
        rows = {name: row for row, name in enumerate(self.groups)}
        learning = np.zeros((len(rows), len(self.phases)))
        for column, phase in enumerate(self.phases):
            for name, gate in phase.gates.items():
                learning[rows[name], column] = gate.share * self.learns.get(name, 1.0)
        # Elements and steps that have learned up to the start of each phase, and then up to each edge.
        up_to_phase = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(learning * np.diff(starts), axis=1)], axis=1)
        places = np.clip(np.searchsorted(starts, edges, side="right") - 1, 0, len(self.phases) - 1)
        since = np.maximum(np.asarray(edges) - starts[places], 0)
        up_to_edge = up_to_phase[:, places] + learning[:, places] * since
        widths = np.diff(edges)
        means = np.diff(up_to_edge, axis=1) / np.maximum(widths, 1)
        return np.where(widths > 0, means, learning[:, places[:-1]])

    def mean_shares(self) -> dict[str, float]:
        """The share of each group's elements that learns, as the mean over all steps."""
        means = self.shares_between([0, self.steps])[:, 0]
        return dict(zip(self.groups, means.tolist(), strict=True))

    @property
    def mean_share(self) -> float:
        """The share of all elements that learns, as the mean over all steps; 0.0 where the plan says no sizes."""
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
        """Parameters by layer; empty where the plan does not say them."""
        sizes = self.sizes
        return (
            {layer: sum(sizes[self.groups[place]] for place in at) for layer, at in self.layers.items()}
            if sizes
            else {}
        )

    def folded(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares of groups (groups, columns) as those of layers (layers, columns), weighted by size."""
        import numpy as np

        sizes = np.array([float(self.sizes.get(group, 1)) for group in self.groups])
        rows = [np.average(shares[places], axis=0, weights=sizes[places]) for places in self.layers.values()]
        return np.array(rows)

    def first_steps(self) -> dict[str, int]:
        """The number of steps done when each group first learns; a group that never does is left out."""
        first: dict[str, int] = {}
        for phase in self.phases:
            for name, gate in phase.gates.items():
                if gate.share * self.learns.get(name, 1.0) > 0.0:
                    first.setdefault(name, phase.step)
        return first


def foresee(method: Method, layers: LayerMap, clock: Clock, seed: int = 0) -> Timeline:
    """What a method would open when, over ``clock.total_steps`` steps, without training anything.

    Raises:
        MethodError: if the method does not fit the model, or decides by what it measures in training.
    """
    layers = layers.at(method.grouped_by)
    method.check(layers)
    if method.decides_by_measuring:
        raise MethodError(
            f"{method.spec!r} decides by what it measures in training, so its plan is not known before. Read "
            f"plan.yaml of a run that has trained with it."
        )
    timeline = Timeline()
    for at, plan in changes(method, layers, clock, Memory(seed=seed)):
        timeline.record(at.step, plan)
    return timeline.described(method, layers, clock.known_total)


def single_weights(method: Method, layers: LayerMap) -> dict[str, float]:
    """Each group of which a method opens only some elements, with the share of these among those that may learn."""
    if not layers.weights:  # a map that was made by hand knows no sizes
        return {}
    selection, reached = method.selection(layers), method.reaches(layers)
    found: dict[str, float] = {}
    for group in layers:
        names = [name for name in group.parameter_names if name not in layers.frozen]
        whole = sum(layers.weights[name].count for name in names)
        opened = [name for name in names if method.trains(name, group.name)]
        counts = (layers.weights[n].count if selection is None else selection.count_of(n) for n in opened)
        if group.name in reached and (learning := sum(counts)) < whole:
            found[group.name] = learning / whole
    return found


def changes(method: Method, layers: LayerMap, clock: Clock, memory: Memory) -> Iterator[tuple[Clock, Plan]]:
    """The plans from ``clock`` on to the end of the training, one at each step where they may change."""
    at: Clock | None = clock
    while at is not None:
        yield at, method.checked_plan(at, layers, memory)
        at = next_clock(method, layers, at, memory)


def next_clock(method: Method, layers: LayerMap, clock: Clock, memory: Memory) -> Clock | None:
    """Where the plan may change next; None if it stays to the end of the training.

    Raises:
        MethodError: if the method gives no later step.
    """
    step = method.next_change(clock, layers, memory)
    if step is None or step >= clock.known_total:
        return None
    if step <= clock.step:
        raise MethodError(
            f"{type(method).__name__}.next_change() gives {step} at step {clock.step}. Expected a later step, or None "
            f"where the plan stays."
        )
    return replace(clock, step=step)


@dataclass(frozen=True, kw_only=True)
class PlanFile(Method):
    """Follow the phases of a plan file; after the last one begins, it holds to the end.

    The name of a layer stands for all of its parts or modules where the file names such.

    Args:
        file: the YAML file, as ``plan:FILE`` names it on the command line.
        phases: what the file holds, by rising step; the first begins at step 0.
    """

    name: ClassVar[str] = "plan"
    summary: ClassVar[str] = "what a plan file says, written by 'gradgate plan --write' or by hand"
    source: ClassVar[str] = "a schedule given by the user"

    file: str
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        steps = self._steps
        if not steps or steps[0] != 0 or any(later <= step for step, later in pairwise(steps)):
            raise MethodError(f"{self.file}: the phases must begin at step 0 and have rising steps; got {steps[:9]}.")
        if any(gate.chosen for phase in self.phases for gate in phase.gates.values()):
            raise MethodError(
                f"{self.file} was written by a training that chose single weights by a measurement, and holds no "
                f"masks. Give the method itself, such as child-tuning:mode=D."
            )

    @cached_property
    def grouped_by(self) -> Unit:
        """What the names in the file are names of."""
        longest = max((name.count(".") for name in self._reached), default=0)
        return "layer" if longest < 2 else "part" if longest == 2 else "module"

    def check(self, layers: LayerMap) -> None:
        unknown = self._reached - {*layers.names, *(group.layer for group in layers)}
        if unknown:
            name = sorted(unknown)[0]
            raise MethodError(
                f"{self.file} names the group {name!r}, which this model does not have.{nearest(name, layers.names)} "
                f"Its groups are {', '.join(layers.names)}."
            )

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        if layers.unit == "layer":
            return self._reached
        return frozenset(group.name for group in layers if {group.name, group.layer} & self._reached)

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        phase = self.phases[bisect_right(self._steps, clock.step) - 1]
        if layers.unit == "layer":
            return phase.plan(layers.names, clock.step)
        gates = phase.plan((*layers.names, *(group.layer for group in layers)), clock.step)
        return Plan({g.name: gates[g.layer] if gates[g.name].closed else gates[g.name] for g in layers})

    def next_change(self, clock: Clock, layers: LayerMap, memory: Memory) -> int | None:
        coming = bisect_right(self._steps, clock.step)
        return self._steps[coming] if coming < len(self._steps) else None

    @property
    def spec(self) -> str:
        return f"{self.name}:{self.file}"

    @property
    def fingerprint(self) -> str:
        return f"{self.spec}@{self.digest}"

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits, equal for files with equal phases."""
        content = json.dumps([phase.to_dict() for phase in self.phases], sort_keys=True)
        return sha256(content.encode()).hexdigest()[:16]

    @cached_property
    def _steps(self) -> list[int]:
        return [phase.step for phase in self.phases]

    @cached_property
    def _reached(self) -> frozenset[str]:
        return frozenset(name for phase in self.phases for name in phase.gates)


def read_plan(file: str) -> PlanFile:
    """The method that follows a plan file.

    Raises:
        MethodError: if the file cannot be read or does not hold phases.
    """
    try:
        phases = _phases_in(_read(Path(file)))
    except OSError as error:
        raise MethodError(
            f"The plan {file!r} cannot be read: {error.strerror or error}. Expected plan:FILE with the path of a plan "
            f"file."
        ) from None
    except ValueError as error:
        raise MethodError(f"{file} is no plan: {error}. {_EXPECTED}") from None
    return PlanFile(file=file, phases=phases)


def read_timeline(path: Path) -> Timeline:
    """The timeline that a run wrote as its ``plan.yaml``.

    Raises:
        RunError: if the file is absent or damaged.
    """
    try:
        return _timeline_in(_read(path))
    except OSError as error:
        raise RunError(
            f"{path} cannot be read: {error.strerror or error}. Expected the plan that a run wrote."
        ) from None
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}. {remedy(path)}") from None


def _timeline_in(record: Mapping[str, Any]) -> Timeline:
    phases = _phases_in(record)
    steps, groups, sizes = record.get("steps"), record.get("groups"), record.get("sizes", {})
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"steps is {steps!r}: expected a whole number, 1 or more")
    if not isinstance(groups, list) or not all(isinstance(name, str) for name in groups):
        raise ValueError(f"groups is {groups!r}: expected a list of names")
    if not isinstance(sizes, dict) or not all(isinstance(size, int) for size in sizes.values()):
        raise ValueError(f"sizes is {sizes!r}: expected a mapping of groups to numbers of parameters")
    learns = record.get("learns", {})
    if not isinstance(learns, dict) or not all(isinstance(mean, float) and 0 <= mean < 1 for mean in learns.values()):
        raise ValueError(f"learns is {learns!r}: expected a mapping of groups to shares from 0.0 to below 1.0")
    unknown = {name for phase in phases for name in phase.gates} - set(groups)
    if unknown:
        raise ValueError(f"phases name groups that the plan does not list: {sorted(unknown)}")
    starts = [phase.step for phase in phases]
    if not starts or starts != sorted(set(starts)) or starts[-1] >= steps:
        raise ValueError(f"phases begin at {starts[:9]}: expected phases in order of their step, before step {steps}")
    return Timeline(list(phases), str(record.get("method", "")), steps, tuple(groups), sizes, learns)


def _read(path: Path) -> Mapping[str, Any]:
    """The mapping in a YAML file."""
    record = parse_yaml(read_bytes(path))
    if not isinstance(record, Mapping):
        raise ValueError(f"it holds {type(record).__name__}, not a mapping")
    return record


def _phases_in(record: Mapping[str, Any]) -> tuple[Phase, ...]:
    phases = record.get("phases")
    if not isinstance(phases, list):
        raise ValueError("'phases' is missing" if phases is None else "'phases' is no list")
    return tuple(Phase.from_dict(phase) for phase in phases)
