"""Read plan files, and follow them as a method."""

from __future__ import annotations

import json
import warnings
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gradgate.clock import Clock
from gradgate.errors import GradgateWarning, MethodError, RunError, nearest
from gradgate.files import from_here, read_bytes, remedy
from gradgate.layers import LayerMap, Unit
from gradgate.methods.base import Method
from gradgate.methods.phases import Phase
from gradgate.methods.plan import Plan
from gradgate.methods.timeline import Timeline
from gradgate.methods.traits import MethodState, Traits
from gradgate.places import typed_place
from gradgate.plain_yaml import parse_yaml
from gradgate.specs import shown

if TYPE_CHECKING:
    pass

_EXPECTED = "Expected 'phases:' with entries such as {step: 0, open: [head]}; 'gradgate plan --write FILE' writes one."


@dataclass(frozen=True, kw_only=True)
class PlanFile(Method):
    """Follow the phases of a plan file; the last one lasts to the end.

    In a file that names parts or modules, the name of a layer stands for all of its own.

    Args:
        file: the YAML file, as ``plan:FILE`` names it on the command line.
        phases: the phases in the file, by rising step; the first begins at step 0.
        made_by: the method that the file was written for, if it opened single weights of a group; empty otherwise.
        written: the traits in the file: what that method did besides opening and closing.
    """

    name: ClassVar[str] = "plan"
    summary: ClassVar[str] = "follows a plan file, written by 'gradgate plan --write' or by hand"
    source: ClassVar[str] = "a schedule given by the user"

    file: str
    phases: tuple[Phase, ...]
    made_by: str = ""
    written: Traits = field(default_factory=Traits)

    def __post_init__(self) -> None:
        steps = self._steps
        if not steps or steps[0] != 0 or any(later <= step for step, later in pairwise(steps)):
            raise MethodError(f"{self.file}: the phases must begin at step 0 and have rising steps; got {steps[:9]}.")
        if any(gate.chosen for phase in self.phases for gate in phase.gates.values()):
            raise MethodError(
                f"{self.file} was written by a training that chose single weights by a measurement, and has no "
                f"masks. Use the method itself, such as child-tuning:mode=D."
            )

    @cached_property
    def traits(self) -> Traits:
        """The traits in the file, with the unit of the names in it."""
        longest = max((name.count(".") for name in self._reached), default=0)
        unit: Unit = "layer" if longest < 2 else "part" if longest == 2 else "module"
        return replace(self.written, unit=unit, by_schedule=True)

    def check(self, layers: LayerMap) -> None:
        if self.made_by:
            warnings.warn(
                f"{self.file} opens whole groups, of which {self.made_by} opened single weights, so it trains more "
                f"than that method did. For these weights alone, train with {self.made_by}.",
                GradgateWarning,
                stacklevel=2,
            )
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

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        phase = self.phases[bisect_right(self._steps, clock.step) - 1]
        if layers.unit == "layer":
            return phase.plan(layers.names, clock.step)
        gates = phase.plan((*layers.names, *(group.layer for group in layers)), clock.step)
        return Plan({g.name: gates[g.layer] if gates[g.name].closed else gates[g.name] for g in layers})

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
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
        """16 hexadecimal digits, equal for files with equal phases and traits."""
        written = [phase.to_dict() for phase in self.phases]
        if traits := self.written.to_dict():
            written.append(traits)
        content = json.dumps(written, sort_keys=True)
        return sha256(content.encode()).hexdigest()[:16]

    @cached_property
    def _steps(self) -> list[int]:
        return [phase.step for phase in self.phases]

    @cached_property
    def _reached(self) -> frozenset[str]:
        return frozenset(name for phase in self.phases for name in phase.gates)


def read_plan(file: str) -> PlanFile:
    """Return the method that follows a plan file.

    Raises:
        MethodError: if the file cannot be read or does not contain phases.
    """
    file = typed_place(file)
    try:
        record = _read(Path(file))
        phases, traits = _phases_in(record), _traits_in(record)
    except OSError as error:
        raise MethodError(
            f"The plan {shown(file)} cannot be read: {error.strerror or error}. Expected plan:FILE with "
            f"the path of a plan file.{from_here(file)}"
        ) from None
    except ValueError as error:
        raise MethodError(f"{file} is not a plan: {error}. {_EXPECTED}") from None
    made_by = str(record.get("method", "")) if record.get("learns") else ""
    return PlanFile(file=file, phases=phases, made_by=made_by, written=traits)


def read_timeline(path: Path) -> Timeline:
    """Return the timeline that a run wrote as its ``plan.yaml``.

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
    unknown = {name for phase in phases for name in phase.gates} - set(groups)
    if unknown:
        raise ValueError(f"phases name groups that the plan does not list: {sorted(unknown)}")
    starts = [phase.step for phase in phases]
    if not starts or starts != sorted(set(starts)) or starts[-1] >= steps:
        raise ValueError(f"phases begin at {starts[:9]}: expected phases in order of their step, before step {steps}")
    method, traits = str(record.get("method", "")), _traits_in(record)
    return Timeline(list(phases), method, steps, tuple(groups), sizes, **_shares_in(record), traits=traits)


def _shares_in(record: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what the record says of groups in which not all elements learn."""
    found = {name: record.get(name, {}) for name in ("learns", "masked", "trainable")}
    for name, shares in found.items():
        if not isinstance(shares, dict) or not all(
            isinstance(each, float) and 0 <= each < 1 for each in shares.values()
        ):
            raise ValueError(f"{name} is {shares!r}: expected a mapping of groups to shares from 0.0 to below 1.0")
    return found


def _read(path: Path) -> Mapping[str, Any]:
    """Return the mapping in a YAML file."""
    record = parse_yaml(read_bytes(path))
    if not isinstance(record, Mapping):
        raise ValueError(f"it contains {type(record).__name__}, not a mapping")
    return record


def _traits_in(record: Mapping[str, Any]) -> Traits:
    return Traits.from_dict(record.get("traits", {}))


def _phases_in(record: Mapping[str, Any]) -> tuple[Phase, ...]:
    phases = record.get("phases")
    if not isinstance(phases, list):
        raise ValueError("'phases' is missing" if phases is None else "'phases' is not a list")
    return tuple(Phase.from_dict(phase) for phase in phases)
