"""A stretch of steps with the same gates, as plain values that can be written, edited and read back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import yaml

from gradgate.clock import Clock
from gradgate.errors import MethodError, nearest
from gradgate.layers import LayerMap
from gradgate.methods.base import CLOSED, OPEN, Gate, Memory, Method, Plan

EACH_STEP = "step"


@dataclass(frozen=True)
class Phase:
    """Steps in a row with the same gates. Groups that it does not name are closed.

    Attributes:
        step: optimizer steps done when the phase begins.
        open: names of the groups that learn as a whole, from the bottom up.
        sparse: group name to the window, factor and draw of a gate that lets a part pass.
        dropped: names of the groups whose gradient is zero while the optimizer still acts on them.
        lr: group name to the factor on its learning rate, where that is not 1.
    """

    step: int
    open: tuple[str, ...]
    sparse: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    lr: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, step: int, plan: Plan) -> Phase:
        """The phase that begins with this plan."""
        return cls(
            step,
            tuple(name for name, gate in plan.items() if gate.open),
            {name: _record(gate) for name, gate in plan.items() if gate.sparse},
            tuple(name for name, gate in plan.items() if gate.dropped),
            {name: gate.lr for name, gate in plan.items() if gate.lr != 1.0 and not gate.closed},
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Phase:
        """The inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: if the record is no phase.
        """
        unknown = set(record) - {"step", "open", "sparse", "dropped", "lr"}
        if unknown:
            raise ValueError(f"unknown entry {sorted(unknown)[0]!r}")
        phase = cls(
            int(record["step"]),
            tuple(record["open"]),
            dict(record.get("sparse", {})),
            tuple(record.get("dropped", ())),
            {name: float(factor) for name, factor in record.get("lr", {}).items()},
        )
        for name, factor in phase.lr.items():
            if not 0.0 < factor < inf:
                raise ValueError(f"lr of {name} is {factor}: expected a factor above 0; leave a group out to close it")
            if name not in phase.groups():
                raise ValueError(f"lr names {name!r}, which is closed in the phase of step {phase.step}")
        for gate in phase.sparse.values():
            _gate(gate, 0)
        return phase

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML and JSON."""
        record: dict[str, Any] = {"step": self.step, "open": list(self.open)}
        if self.sparse:
            record["sparse"] = {name: dict(gate) for name, gate in self.sparse.items()}
        if self.dropped:
            record["dropped"] = list(self.dropped)
        if self.lr:
            record["lr"] = dict(self.lr)
        return record

    def same_gates(self, other: Phase) -> bool:
        """Whether two phases differ in their first step alone."""
        return replace(self, step=other.step) == other

    def groups(self) -> set[str]:
        """Every group that it names."""
        return {*self.open, *self.sparse, *self.dropped}

    def plan(self, groups: tuple[str, ...], step: int) -> Plan:
        """The gates of all groups for the step after ``step`` done ones."""
        named = {
            **dict.fromkeys(self.open, OPEN),
            **dict.fromkeys(self.dropped, Gate(lo=0.0, hi=0.0, hold=False)),
            **{name: _gate(record, step) for name, record in self.sparse.items()},
        }
        rates = {name: replace(named[name], lr=factor) for name, factor in self.lr.items()}
        return Plan({name: (named | rates).get(name, CLOSED) for name in groups})


def _record(gate: Gate) -> dict[str, Any]:
    """Window and factor always; what is usual is left out of the rest."""
    record: dict[str, Any] = {"lo": gate.lo, "hi": gate.hi, "scale": gate.scale}
    if gate.share < 1.0 or gate.noise:
        record |= {"stream": gate.stream, "draw": EACH_STEP if gate.each_step else gate.draw}
        record |= {"mask_target": "update" if gate.hold else "grad"}
    if gate.chosen:
        record["chosen"] = True
    if gate.noise:
        record["noise"] = gate.noise
    if gate.scope != "encoder":
        record["mask_scope"] = gate.scope
    return record


def _gate(record: Mapping[str, Any], step: int) -> Gate:
    values = dict(record)
    draw = values.pop("draw", 0)
    gate = Gate(
        lo=float(values.pop("lo")),
        hi=float(values.pop("hi")),
        scale=float(values.pop("scale", 1.0)),
        stream=str(values.pop("stream", "plan")),
        draw=step if draw == EACH_STEP else int(draw),
        each_step=draw == EACH_STEP,
        hold=_either(values.pop("mask_target", "update"), "update", "grad"),
        noise=float(values.pop("noise", 0.0)),
        chosen=bool(values.pop("chosen", False)),
        scope="attention" if _either(values.pop("mask_scope", "encoder"), "attention", "encoder") else "encoder",
    )
    if values:
        raise ValueError(f"unknown entry {sorted(values)[0]!r} of a sparse gate")
    if not 0.0 <= gate.lo < gate.hi <= 1.0:
        raise ValueError(f"lo={gate.lo}, hi={gate.hi}: expected 0 <= lo < hi <= 1")
    return gate


def _either(word: str, yes: str, no: str) -> bool:
    if word not in (yes, no):
        raise ValueError(f"{word!r}: expected {yes} or {no}")
    return word == yes


@dataclass(frozen=True, kw_only=True)
class PlanFile(Method):
    """Follow the phases of a plan file; after the last one begins, it holds to the end.

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
        steps = [phase.step for phase in self.phases]
        if not steps or steps[0] != 0 or steps != sorted(set(steps)):
            raise MethodError(f"{self.file}: the phases must begin at step 0 and have rising steps; got {steps[:9]}.")

        if any(gate.get("chosen") for phase in self.phases for gate in phase.sparse.values()):
            raise MethodError(
                f"{self.file} was written by a training that chose single weights by a measurement, and holds no "
                f"masks. Give the method itself, such as child-tuning:mode=D."
            )

    def check(self, layers: LayerMap) -> None:
        unknown = {name for phase in self.phases for name in phase.groups()} - set(layers.names)
        if unknown:
            name = sorted(unknown)[0]
            raise MethodError(
                f"{self.file} names the group {name!r}, which this model does not have.{nearest(name, layers.names)} "
                f"Its groups are {', '.join(layers.names)}."
            )

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return frozenset(name for phase in self.phases for name in phase.groups())

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        current = bisect_right(self.phases, clock.step, key=lambda phase: phase.step) - 1
        return self.phases[current].plan(layers.names, clock.step)

    @property
    def spec(self) -> str:
        return f"{self.name}:{self.file}"


# Long plans take the pure Python loader many seconds.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Timeline:
    """The phases of one training in order."""

    def __init__(self, phases: list[Phase] | None = None) -> None:
        self.phases = phases or []

    def record(self, step: int, plan: Plan) -> None:
        """Note the plan for the step after ``step`` done ones."""
        phase = Phase.of(step, plan)
        if not self.phases or not self.phases[-1].same_gates(phase):
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
    """What a method would open when, over ``clock.total_steps`` steps, without training anything.

    Raises:
        MethodError: if the method does not fit the model, or decides by what it measures in training.
    """
    method.check(layers)
    if method.decides_by_measuring:
        raise MethodError(f"{method.spec!r} decides by what it measures in training, so its plan is not known before.")
    timeline = Timeline()
    memory = Memory(seed=seed)
    for _ in range(clock.known_total):
        timeline.record(clock.step, method.checked_plan(clock, layers, memory))
        clock = clock.ticked()
    return timeline


def to_yaml(record: dict[str, Any]) -> str:
    """A timeline's record as the text of a plan file."""
    text: str = yaml.dump(record, Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=120)
    return text


def read_plan(file: str) -> PlanFile:
    """The method that follows a plan file.

    Raises:
        MethodError: if the file cannot be read or does not hold phases.
    """
    try:
        record = yaml.load(Path(file).read_text(encoding="utf-8"), Loader=_LOADER)  # a safe loader, see _LOADER
        phases = tuple(Phase.from_dict(phase) for phase in record["phases"])
    except OSError as error:
        raise MethodError(f"The plan {file} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise MethodError(
            f"{file} is no plan: {reason}. Expected 'phases:' with entries such as {{step: 0, open: [head]}}; "
            f"'gradgate plan --write FILE' writes one."
        ) from None
    return PlanFile(file=file, phases=phases)
