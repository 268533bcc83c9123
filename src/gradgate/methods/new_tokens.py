"""Train the rows of new tokens in addition to what a method trains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.layers.selectors import Rows, Selection, select, union
from gradgate.layers.units import EMBEDDINGS, HEAD
from gradgate.methods.base import Method
from gradgate.methods.combined import Combined, MethodWrapper
from gradgate.methods.layerwise_lr import RateModifier
from gradgate.methods.plan import OPEN, Plan
from gradgate.methods.traits import MethodState


@dataclass(frozen=True, kw_only=True)
class NewTokens(MethodWrapper):
    """A method with the rows of new tokens, which learn at every step; the other embeddings keep every bit.

    The rows are those of the table of embeddings, and of an output layer with one row per token; if the method trains
    the head, they learn when it does.

    Args:
        method: decides on everything else.
        rows: ranges of rows, as (start, stop).
    """

    name: ClassVar[str] = "new-tokens"
    summary: ClassVar[str] = "the rows of new tokens learn in addition to what another method trains"
    source: ClassVar[str] = "see the method"

    method: Method
    rows: Rows

    @property
    def wrapped(self) -> Method:
        return self.method

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        plan = self.method.plan(clock, layers, memory)
        reached = self.method.reaches(layers)
        always = [group for group in self._groups(layers) if group == EMBEDDINGS or group not in reached]
        rates = self._rates(clock, layers, memory)
        return Plan({**plan, **{group: replace(OPEN, lr=rates.get(group, 1.0)) for group in always}})

    def _rates(self, clock: Clock, layers: LayerMap, memory: MethodState) -> dict[str, float]:
        """Return the factor on each group's learning rate by the methods that only scale rates.

        A closed group has no rate of its own, and one that opens slowly would slow down what has learned all along.
        """
        found: dict[str, float] = {}
        for method in self.method.methods if isinstance(self.method, Combined) else (self.method,):
            if isinstance(method, RateModifier):
                for group, factor in method.rates(clock, layers, memory).items():
                    found[group] = found.get(group, 1.0) * factor
        return found

    def check(self, layers: LayerMap) -> None:
        self.method.check(layers)
        self.selection(layers)

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return self.method.reaches(layers) | {*self._groups(layers)}

    def selection(self, layers: LayerMap) -> Selection:
        """Return what the method trains, without the embeddings, and the rows of new tokens."""
        whole = select(layers, "re:.*")
        of_method = self.method.selection(layers) or whole
        new = self._new(layers)
        reached = self.method.reaches(layers)
        kept = {
            name: rows
            for group in layers
            if group.name in reached and group.name != EMBEDDINGS
            for name in group.parameter_names
            if (rows := of_method.rows.get(name))
        }
        learns = kept | new
        ordered = {name: learns[name] for name in whole.names if name in learns}
        return Selection(self.spec, ordered, {name: whole.shapes[name] for name in ordered})

    @property
    def spec(self) -> str:
        ranges = "/".join(f"{start}:{stop}" for start, stop in self.rows)
        return f"{self.method.spec}+{self.name}:rows={ranges}"

    @property
    def fingerprint(self) -> str:
        return self.spec.replace(self.method.spec, self.method.fingerprint, 1)

    def _groups(self, layers: LayerMap) -> list[str]:
        """Return the groups with rows of new tokens; a tied output layer belongs to the embeddings."""
        head = layers[HEAD].parameter_names if HEAD in layers else ()
        return [EMBEDDINGS, *([HEAD] if any(layers.weights[name].rows for name in head) else [])]

    def _new(self, layers: LayerMap) -> dict[str, Rows]:
        """Return the rows of new tokens, by parameter."""
        found: dict[str, Rows] = {}
        for group in self._groups(layers):
            for start, stop in self.rows:
                for name, rows in select(layers, f"{group}[{start}:{stop}]").rows.items():
                    found[name] = union(found.get(name, ()), rows)
        return found
