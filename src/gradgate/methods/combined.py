"""Build methods from others: joined by ``+``, or wrapped around one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.layers.selectors import Selection
from gradgate.measure import Request
from gradgate.methods.base import Method
from gradgate.methods.fixed import Probe
from gradgate.methods.mixins import Modifier
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, Traits


@dataclass(frozen=True, kw_only=True)
class MethodWrapper(Method):
    """A method around another one, which decides everything that the subclass does not."""

    @property
    @abstractmethod
    def wrapped(self) -> Method:
        """The method that decides."""

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return self.wrapped.next_change(clock, layers, memory)

    def check_task(self, kind: str) -> None:
        self.wrapped.check_task(kind)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return self.wrapped.reaches(layers)

    def selection(self, layers: LayerMap) -> Selection | None:
        return self.wrapped.selection(layers)

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
        return self.wrapped.requests(clock, layers, memory)

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        return self.wrapped.learned(scores, clock, memory)

    def noted(self, sizes: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        return self.wrapped.noted(sizes, clock, memory)

    @property
    def traits(self) -> Traits:
        return self.wrapped.traits


@dataclass(frozen=True, kw_only=True)
class Combined(MethodWrapper):
    """Let the first method decide what learns, and the others how it learns.

    Args:
        methods: two or more, all but the first derived from :class:`Modifier`; ``first+second`` as text.
    """

    name: ClassVar[str] = "combined"
    summary: ClassVar[str] = "methods joined by '+': the first opens and closes, the others change how it learns"
    source: ClassVar[str] = "see the methods that are joined"

    methods: tuple[Method, ...]

    @property
    def wrapped(self) -> Method:
        return self.methods[0]

    def __post_init__(self) -> None:
        if not isinstance(self.methods, Sequence) or not all(isinstance(method, Method) for method in self.methods):
            raise MethodError(
                f"methods={self.methods!r:.120}: expected several methods. Read a text that joins them by '+', as in "
                f"gg.method('gradual+mixout')."
            )
        object.__setattr__(self, "methods", tuple(self.methods))
        deciding = [method.spec for method in self.methods[1:] if not isinstance(method, Modifier)]
        if deciding or len(self.methods) < 2:
            what = f"{deciding[0]!r} decides that as well" if deciding else "there is no second method"
            raise MethodError(
                f"{self.spec!r} is not a valid combination: the first method decides what learns, and methods after "
                f"'+' may only change how it learns, such as layerwise-lr and mixout; {what}. Keep only one method "
                f"that decides, or add one that does not."
            )
        if sum(method.traits.mixing is not None for method in self.methods) > 1:
            raise MethodError(f"{self.spec!r} mixes weights twice. Use mixout once.")
        if isinstance(self.wrapped, Probe):
            how = "+".join(method.spec for method in self.methods[1:])
            raise MethodError(
                f"{self.spec!r} is not a valid combination: {self.wrapped.spec!r} takes no training steps, so nothing "
                f"can be changed about how it learns. Use it alone, or train the head with 'head+{how}'."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        gates = dict(self.wrapped.plan(clock, layers, memory))
        for method in self.methods[1:]:
            for name, factor in method.plan(clock, layers, memory).items():
                gates[name] = gates[name] if gates[name].closed else replace(gates[name], lr=gates[name].lr * factor.lr)
        return Plan(gates)

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        coming = (method.next_change(clock, layers, memory) for method in self.methods)
        return min((step for step in coming if step is not None), default=None)

    def check(self, layers: LayerMap) -> None:
        for method in self.methods:
            method.check(layers)

    @property
    def traits(self) -> Traits:
        each = [method.traits for method in self.methods]
        mixing = next((traits.mixing for traits in each if traits.mixing), None)
        return replace(each[0], mixing=mixing, dropout_off=any(traits.dropout_off for traits in each))

    @property
    def spec(self) -> str:
        return "+".join(method.spec for method in self.methods)

    @property
    def fingerprint(self) -> str:
        return "+".join(method.fingerprint for method in self.methods)
