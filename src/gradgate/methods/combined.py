"""Methods made of others: joined by ``+``, or around one that decides."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap, Unit
from gradgate.layers.selectors import Selection
from gradgate.measure import Measurement, SelectionRequest
from gradgate.methods.base import Memory, Method, MixoutSettings, Modifier, State, Watched
from gradgate.methods.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Decided(Method):
    """A method made around another one, which decides wherever nothing else is said."""

    @property
    @abstractmethod
    def deciding(self) -> Method:
        """The method that decides."""

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        return self.deciding.plan(clock, layers, memory)

    def next_change(self, clock: Clock, layers: LayerMap, memory: Memory) -> int | None:
        return self.deciding.next_change(clock, layers, memory)

    def check(self, layers: LayerMap) -> None:
        self.deciding.check(layers)

    def trains(self, parameter_name: str, group: str) -> bool:
        return self.deciding.trains(parameter_name, group)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return self.deciding.reaches(layers)

    def selection(self, layers: LayerMap) -> Selection | None:
        return self.deciding.selection(layers)

    def measures(self, clock: Clock, layers: LayerMap, memory: Memory) -> Measurement | None:
        return self.deciding.measures(clock, layers, memory)

    def learned(self, scores: dict[str, float], clock: Clock, memory: Memory) -> Memory:
        return self.deciding.learned(scores, clock, memory)

    @property
    def watches(self) -> Watched | None:
        return self.deciding.watches

    def watched(self, clock: Clock, layers: LayerMap, memory: Memory) -> tuple[str, ...]:
        return self.deciding.watched(clock, layers, memory)

    def noted(self, sizes: dict[str, float], clock: Clock, memory: Memory) -> Memory:
        return self.deciding.noted(sizes, clock, memory)

    def selects(self, clock: Clock, layers: LayerMap, memory: Memory) -> SelectionRequest | None:
        return self.deciding.selects(clock, layers, memory)

    @property
    def decides_by_measuring(self) -> bool:
        return self.deciding.decides_by_measuring

    @property
    def measures_on_data(self) -> bool:
        return self.deciding.measures_on_data

    @property
    def state_of_closed(self) -> State:
        return self.deciding.state_of_closed

    @property
    def forgets_what_masks_hold(self) -> bool:
        return self.deciding.forgets_what_masks_hold

    @property
    def grouped_by(self) -> Unit:
        return self.deciding.grouped_by

    @property
    def mixing(self) -> MixoutSettings | None:
        return self.deciding.mixing

    @property
    def turns_dropout_off(self) -> bool:
        return self.deciding.turns_dropout_off


@dataclass(frozen=True, kw_only=True)
class Combined(Decided):
    """The first method decides what learns; the others change how what it opens learns.

    Args:
        methods: two or more, all but the first derived from :class:`Modifier`; ``first+second`` as text.
    """

    name: ClassVar[str] = "combined"
    summary: ClassVar[str] = "methods joined by '+': the first opens and closes, the others change how that learns"
    source: ClassVar[str] = "see the methods that are joined"

    methods: tuple[Method, ...]

    @property
    def deciding(self) -> Method:
        return self.methods[0]

    def __post_init__(self) -> None:
        deciding = [method.spec for method in self.methods[1:] if not isinstance(method, Modifier)]
        if deciding or len(self.methods) < 2:
            what = f"{deciding[0]!r} decides that as well" if deciding else "there is no second method"
            raise MethodError(
                f"{self.spec!r} cannot be: the first method of a combination decides what learns, and those after '+' "
                f"may only change how that learns, such as layerwise-lr and mixout; {what}. Leave out "
                f"all but one that decides, or name a second one that does not."
            )
        if sum(method.mixing is not None for method in self.methods) > 1:
            raise MethodError(f"{self.spec!r} mixes weights twice. Give mixout once.")

    def plan(self, clock: Clock, layers: LayerMap, memory: Memory) -> Plan:
        gates = dict(self.deciding.plan(clock, layers, memory))
        for method in self.methods[1:]:
            for name, factor in method.plan(clock, layers, memory).items():
                gates[name] = gates[name] if gates[name].closed else replace(gates[name], lr=gates[name].lr * factor.lr)
        return Plan(gates)

    def next_change(self, clock: Clock, layers: LayerMap, memory: Memory) -> int | None:
        coming = (method.next_change(clock, layers, memory) for method in self.methods)
        return min((step for step in coming if step is not None), default=None)

    def check(self, layers: LayerMap) -> None:
        for method in self.methods:
            method.check(layers)

    @property
    def mixing(self) -> MixoutSettings | None:
        return next((method.mixing for method in self.methods if method.mixing), None)

    @property
    def turns_dropout_off(self) -> bool:
        return any(method.turns_dropout_off for method in self.methods)

    @property
    def spec(self) -> str:
        return "+".join(method.spec for method in self.methods)

    @property
    def fingerprint(self) -> str:
        return "+".join(method.fingerprint for method in self.methods)
