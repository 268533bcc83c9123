"""Open a few layers at a time, drawn uniformly or by a measurement (LISA, OWS, GRASS)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from gradgate import gates
from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap
from gradgate.measure import FisherRequest, OutlierRequest, Request
from gradgate.methods.blocks import Ends, open_ends
from gradgate.methods.mixins import HasStateOption, HasUnitOption
from gradgate.methods.options import acts_if
from gradgate.methods.plan import Plan
from gradgate.methods.traits import MethodState, State, Traits
from gradgate.methods.unfreezing import refuse_shared_layers

SCORES, MEASURED = "scores", "measured"


@dataclass(frozen=True, kw_only=True)
class LISA(HasStateOption, HasUnitOption):
    """Draw ``layers`` layers every ``every`` steps; they learn until the next draw, and the others are closed.

    With ``draw=uniform`` each set of that many layers is equally likely at every draw. Otherwise layers are drawn one
    after another, without replacement, each in proportion to its weight among those that are left. The weights
    follow from the measurements, which are in the memory's notes: ``scores`` by group, and ``measured``, the number of
    steps done at the latest measurement. A draw is a function of the seed, the period and these notes.

    Args:
        layers: how many layers, or other units, learn at a time (the paper's gamma), 1 or more.
        every: optimizer steps between two draws (the paper's sampling period K), 1 or more.
        ends: ``open`` trains the embeddings and the head at all times; ``closed`` keeps the embeddings and an output
            layer over tokens closed, while the head of a task, which begins with random weights, learns.
        draw: ``uniform``; ``outlier``, in proportion to each layer's share of outliers, measured before the first
            step; or ``gradient``, by the size of each layer's gradient, measured before each draw: at first in all
            layers, later in those that have just learned.
        batches: with ``draw=outlier`` and ``gradient``, training batches per measurement, 1 or more.
        threshold: with ``draw=outlier``, a weight times its input is an outlier above this multiple of the mean;
            above 0.
        temperature: with ``draw=gradient``, the logarithm of a layer's weight is its root mean square gradient, in
            units of the mean over the layers, divided by this; above 0. Large values draw more evenly.
        state: as for all methods that close open groups, but ``drop`` by default: the optimizer restarts in the layers
            of each draw, and stores the state of what is open. With ``keep`` it stores that of every layer that was
            ever drawn, which comes close to the state of full fine-tuning.
    """

    name: ClassVar[str] = "lisa"
    summary: ClassVar[str] = "a few layers learn at a time, drawn again every few steps"
    source: ClassVar[str] = (
        "LISA (Pan et al. 2024), Algorithm 1: https://arxiv.org/abs/2403.17919; draw=outlier: OWS (Li et al. 2024): "
        "https://arxiv.org/abs/2405.18380; draw=gradient: GRASS (Tian et al. 2026): https://arxiv.org/abs/2604.07808"
    )
    deviates: ClassVar[str] = (
        "The paper tunes layers (gamma) and every (K) to the model and has no default, and its ends are open. "
        "Algorithm 1 does not say what happens to the optimizer's state of a closed layer. The authors restarted the "
        "training at each draw for the paper (https://github.com/OptimalScale/LMFlow/issues/729), which is state=drop, "
        "except that the open ends do not restart here; their code LMFlow keeps the states (state=keep). "
        "OWS measures outliers on C4, here on the training data, and adds low-rank gradients; its threshold comes "
        "from the name of its authors' file of scores. GRASS takes the gradients of the training steps, averages "
        "old and "
        "new ones, and has a temperature in units of the gradient; here the mean is over squares."
    )

    layers: int = 2
    every: int = 20
    ends: Ends = "open"
    draw: Literal["uniform", "outlier", "gradient"] = "uniform"
    batches: int = acts_if(16, draw=("outlier", "gradient"))
    threshold: float = acts_if(13.0, draw=("outlier",))
    temperature: float = acts_if(1.0, draw=("gradient",))
    state: State = "drop"

    def __post_init__(self) -> None:
        self._require(
            layers=(self.layers >= 1, "1 or more layers"),
            every=(self.every >= 1, "1 or more optimizer steps"),
            batches=(self.batches >= 1, "1 or more"),
            threshold=(0.0 < self.threshold < math.inf, "above 0"),
            temperature=(0.0 < self.temperature < math.inf, "above 0"),
        )

    def check(self, layers: LayerMap) -> None:
        refuse_shared_layers(self, layers)
        count = len(self._names(layers))
        if self.layers > count:
            raise MethodError(
                f"{self.spec!r} draws {self.layers} {self.unit}s at a time, but the model has {count} that can learn. "
                f"Use layers=1 to {count}; 'full' opens them all."
            )

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        drawn = self._drawn(clock.step // self.every, layers, memory)
        return Plan.opening(layers, dict.fromkeys((*drawn, *open_ends(layers, self.ends)), True))

    def next_change(self, clock: Clock, layers: LayerMap, memory: MethodState) -> int | None:
        return (clock.step // self.every + 1) * self.every

    def reaches(self, layers: LayerMap) -> frozenset[str]:
        return open_ends(layers, self.ends).union(self._names(layers))

    def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
        every = tuple(self._names(layers))
        known, seed = SCORES in memory.notes, memory.seed * 1_000_003 + clock.step
        if self.draw == "outlier" and not known:
            return (OutlierRequest(every, self.batches, self.threshold, seed),)
        if self.draw == "gradient" and not clock.step % self.every and memory.notes.get(MEASURED) != clock.step:
            groups = self._drawn(clock.step // self.every - 1, layers, memory) if known else every
            return (FisherRequest(groups, self.batches, labels="true", gradient="batch", seed=seed),)
        return ()

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        found = {**memory.notes.get(SCORES, {}), **scores}
        return replace(memory, notes={**memory.notes, SCORES: found, MEASURED: clock.step})

    @property
    def traits(self) -> Traits:
        return replace(super().traits, measures=None if self.draw == "uniform" else "data")

    def _names(self, layers: LayerMap) -> list[str]:
        """Return the layers from which it draws: those that can learn, as LoRA may leave some without an adapter."""
        return [group.name for group in layers.layers if layers.can_learn(group.name)]

    def _drawn(self, period: int, layers: LayerMap, memory: MethodState) -> tuple[str, ...]:
        """Return the layers that learn in one period."""
        names = self._names(layers)
        numbers = {
            name: gates.uniform(gates.key(seed=memory.seed, stream=self.name, name=name, draw=period)) for name in names
        }
        weights = self._log_weights(layers, memory)
        if weights:
            # Poisson processes with these rates arrive for the first time in the order of successive draws.
            arrivals = {name: (math.log(-math.log1p(-(u or 2**-33))) - weights[name], u) for name, u in numbers.items()}
            return tuple(sorted(names, key=lambda name: arrivals[name])[: self.layers])
        return tuple(sorted(names, key=lambda name: numbers[name])[: self.layers])

    def _log_weights(self, layers: LayerMap, memory: MethodState) -> dict[str, float]:
        """Return the logarithm of each layer's weight; empty if all are equal, as before the first measurement."""
        scores: dict[str, float] = memory.notes.get(SCORES, {})
        if self.draw == "uniform" or not any(scores.values()):
            return {}
        if self.draw == "outlier":
            return {name: _log(scores[name]) for name in self._names(layers)}
        sizes = {name: max(1, _learnable(layers[name].parameter_names, layers)) for name in self._names(layers)}
        roots = {name: math.sqrt(scores[name] / size) for name, size in sizes.items()}
        mean = sum(roots.values()) / len(roots)
        return {name: root / mean / self.temperature for name, root in roots.items()}


def _learnable(names: tuple[str, ...], layers: LayerMap) -> int:
    return sum(layers.weights[name].count for name in names if name not in layers.frozen)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf
