"""Describe phases, consecutive steps with the same gates, and convert them to plain values for files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any

from gradgate.methods.plan import CLOSED, OPEN, Gate, Plan
from gradgate.specs import shown

EACH_STEP = "step"
_DROPPED = Gate(lo=0.0, hi=0.0, hold=False)
_ENTRIES = ("step", "open", "sparse", "dropped", "lr")


@dataclass(frozen=True)
class Phase:
    """Consecutive steps with the same gates.

    Attributes:
        step: optimizer steps done when the phase begins.
        gates: group name to gate, from the bottom up; groups that are not named are closed. The draw of a mask that
            is new at each step is 0.
    """

    step: int
    gates: Mapping[str, Gate]

    def __hash__(self) -> int:
        return hash((self.step, frozenset(self.gates.items())))

    @classmethod
    def of(cls, step: int, plan: Plan) -> Phase:
        """Return the phase that begins with a plan, after ``step`` optimizer steps."""
        return cls(step, {name: _as_written(gate) for name, gate in plan.items() if not gate.closed})

    @classmethod
    def from_dict(cls, record: object) -> Phase:
        """Return the phase in a record, as :meth:`to_dict` makes it.

        Raises:
            ValueError: if the record is not a phase; the message fits after the name of a file.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"{_shown(record)}: expected a phase such as {{step: 0, open: [head]}}")
        step = _whole(record.get("step"), "step")
        where = f"the phase of step {step}: "
        unknown = [name for name in record if name not in _ENTRIES]
        if unknown:
            raise ValueError(f"{where}unknown entry {unknown[0]!r}; expected {', '.join(_ENTRIES)}")
        if "open" not in record:
            raise ValueError(f"{where}'open' is missing; expected a list of group names, [] for none")
        try:
            return cls(step, dict(_gates_in(record)))
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None

    @property
    def open(self) -> tuple[str, ...]:
        """The groups that learn as a whole."""
        return tuple(name for name, gate in self.gates.items() if gate.open)

    @property
    def sparse(self) -> dict[str, Gate]:
        """The gates that pass some elements, or all with a factor, by group."""
        return {name: gate for name, gate in self.gates.items() if gate.sparse}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for YAML and JSON."""
        record: dict[str, Any] = {"step": self.step, "open": list(self.open)}
        if sparse := self.sparse:
            record["sparse"] = {name: _record(gate) for name, gate in sparse.items()}
        if dropped := [name for name, gate in self.gates.items() if gate.dropped]:
            record["dropped"] = dropped
        if factors := {name: gate.lr for name, gate in self.gates.items() if gate.lr != 1.0}:
            record["lr"] = factors
        return record

    def plan(self, groups: tuple[str, ...], step: int) -> Plan:
        """Return the gates of all groups for the step after ``step`` optimizer steps."""
        gates = {name: self.gates.get(name, CLOSED) for name in groups}
        return Plan({name: replace(gate, draw=step) if gate.each_step else gate for name, gate in gates.items()})


@lru_cache(maxsize=256)
def _as_written(gate: Gate) -> Gate:
    """Return the gate with only what its record contains."""
    if gate.sparse:
        return replace(_gate(_record(gate)), lr=gate.lr)
    return replace(_DROPPED if gate.dropped else OPEN, lr=gate.lr)


def _record(gate: Gate) -> dict[str, Any]:
    """Return the plain values of a sparse gate: its window and factor, and whatever differs from the default."""
    record: dict[str, Any] = {"lo": gate.lo, "hi": gate.hi, "scale": gate.scale}
    if gate.share < 1.0 or gate.noise:
        record |= {"stream": gate.stream, "draw": EACH_STEP if gate.each_step else gate.draw}
        record |= {"mask_target": "update" if gate.hold else "grad"}
    if gate.chosen:
        record["chosen"] = True
    if gate.momentum:
        record["momentum"] = True
    if gate.noise:
        record["noise"] = gate.noise
    if gate.scope != "encoder":
        record["mask_scope"] = gate.scope
    return record


def _gates_in(record: Mapping[str, Any]) -> Iterator[tuple[str, Gate]]:
    """Yield group and gate of each entry of a phase, with the factors on the learning rate."""
    factors = {name: _factor(name, factor) for name, factor in _mapping(record.get("lr", {}), "lr").items()}
    sparse = _mapping(record.get("sparse", {}), "sparse")
    found = [
        *((name, OPEN) for name in _names(record["open"], "open")),
        *((name, _sparse_gate(name, values)) for name, values in sparse.items()),
        *((name, _DROPPED) for name in _names(record.get("dropped", ()), "dropped")),
    ]
    names: set[str] = set()
    for name, _ in found:
        if name in names:
            raise ValueError(f"names {name!r} twice; expected each group once, in open, sparse or dropped")
        names.add(name)
    for name in factors:
        if name not in names:
            raise ValueError(f"lr names {name!r}, which is closed in this phase; open it there, or leave lr out")
    for name, gate in found:
        yield name, replace(gate, lr=factors.get(name, 1.0))


def _sparse_gate(name: str, values: Any) -> Gate:
    try:
        return _gate(_mapping(values, "a sparse gate"))
    except ValueError as error:
        raise ValueError(f"sparse {name}: {error}") from None


def _gate(record: Mapping[str, Any]) -> Gate:
    values = dict(record)
    draw = values.pop("draw", 0)
    stream = values.pop("stream", "plan")
    chosen, momentum = values.pop("chosen", False), values.pop("momentum", False)
    if not isinstance(stream, str) or not isinstance(chosen, bool) or not isinstance(momentum, bool):
        raise ValueError(
            f"stream={_shown(stream)}, chosen={_shown(chosen)}, momentum={_shown(momentum)}: expected a text, and true "
            f"or false"
        )
    attention = _either(values.pop("mask_scope", "encoder"), "mask_scope", "attention", "encoder")
    lo, hi = _number(values.pop("lo", None), "lo"), _number(values.pop("hi", None), "hi")
    if not 0.0 <= lo < hi <= 1.0:
        raise ValueError(f"lo={lo}, hi={hi}: expected 0 <= lo < hi <= 1")
    gate = Gate(
        lo=lo,
        hi=hi,
        scale=_number(values.pop("scale", 1.0), "scale"),
        stream=stream,
        draw=0 if draw == EACH_STEP else _whole(draw, "draw"),
        each_step=draw == EACH_STEP,
        hold=_either(values.pop("mask_target", "update"), "mask_target", "update", "grad"),
        noise=_number(values.pop("noise", 0.0), "noise"),
        chosen=chosen,
        momentum=momentum,
        scope="attention" if attention else "encoder",
    )
    if values:
        raise ValueError(f"unknown entry {next(iter(values))!r} of a sparse gate")
    return gate


def _names(value: object, entry: str) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{entry}={_shown(value)}: expected a list of group names, such as [layers.0, head]")
    return list(value)


def _mapping(value: Any, entry: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{entry}={_shown(value)}: expected a mapping of names to values")
    return value


def _factor(name: str, value: object) -> float:
    factor = _number(value, f"lr of {name}")
    if not factor > 0.0:
        raise ValueError(f"lr of {name} is {factor}: expected a factor above 0; leave a group out to close it")
    return factor


def _number(value: object, entry: str) -> float:
    # YAML reads 1e-3, without a point, as a text.
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not isfinite(number):
        raise ValueError(f"{entry} is {_shown(value)}: expected a finite number")
    return number


def _whole(value: object, entry: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{entry} is {_shown(value)}: expected a whole number, 0 or more")
    return value


def _either(word: object, entry: str, yes: str, no: str) -> bool:
    if word not in (yes, no):
        raise ValueError(f"{entry} is {_shown(word)}: expected {yes} or {no}")
    return word == yes


def _shown(value: object) -> str:
    return shown(value) if isinstance(value, str) else shown(repr(value))[1:-1]
