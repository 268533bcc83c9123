"""Predict the phases of a training run, as far as they matter for memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.measure import Request, SelectionRequest, SignalRequest, WatchRequest
from gradgate.methods.base import Method
from gradgate.methods.phases import Phase
from gradgate.methods.plan import Plan
from gradgate.methods.timeline import changes
from gradgate.methods.traits import MethodState
from gradgate.tuner.watching import watched_groups

Known = Callable[[SignalRequest], "dict[str, float] | None"]


@dataclass(frozen=True)
class PlannedPhase:
    """A phase of a training that has not started.

    Attributes:
        step: optimizer steps done when it begins.
        steps: how many there are.
        plan: the gates.
        supposed: whether the plan depends on a measurement that only the training will make.
        measured: the measurements in it.
        watched: the groups that the method watches in its last step.
    """

    step: int
    steps: int
    plan: Plan
    supposed: bool = False
    measured: tuple[Request, ...] = ()
    watched: tuple[str, ...] = ()


def suppositions(method: Method) -> tuple[int, ...]:
    """Return the orders of measured groups to estimate: the lowest has the highest score (-1), or the topmost (1).

    The former keeps the most activations from early on, the latter while it measures. For units that are less than a
    layer, the highest scores of one kind are also supposed in other layers than those of the next kind (0): matrices
    that multiply the same input keep it in as many layers as possible.
    """
    if method.traits.measures is None:
        return (1,)
    return (-1, 1) if method.traits.unit == "layer" else (-1, 1, 0)


def planned_phases(
    method: Method, layers: LayerMap, clock: Clock, seed: int = 0, order: int = 1, known: Known = lambda request: None
) -> list[PlannedPhase]:
    """Return the phases of a training in order.

    Args:
        method: decides what learns when.
        layers: the model's map, at the method's unit.
        clock: the length of the training.
        seed: of the method's draws.
        order: one of :func:`suppositions`.
        known: returns what was measured on the weights; None if it has to be supposed.

    Raises:
        MethodError: if the method does not fit the model.
    """
    method.check(layers)
    supposed = _Supposed(method, layers, order, known)
    phases: list[tuple[Phase, Plan, list[Request]]] = []
    for at, plan in changes(method, layers, clock, MethodState(seed=seed), supposed.measure):
        phase = Phase.of(at.step, plan)
        if not phases or phases[-1][0].gates != phase.gates:
            phases.append((phase, plan, []))
        phases[-1][2].extend(supposed.requests)
    ends = [*(phase.step for phase, *_ in phases[1:]), clock.known_total]
    return [
        PlannedPhase(
            phase.step,
            end - phase.step,
            plan,
            method.traits.decides_by_measuring and phase.step > 0,
            tuple(requests),
            watched_groups(method, replace(clock, step=end - 1), layers, MethodState(seed=seed)),
        )
        for (phase, plan, requests), end in zip(phases, ends, strict=True)
    ]


class _Supposed:
    """Answers a method's measurements with scores in a supposed order.

    Attributes:
        requests: those of the latest step.
    """

    def __init__(self, method: Method, layers: LayerMap, order: int, known: Known) -> None:
        self.requests: list[Request] = []
        self._method, self._layers, self._order, self._known = method, layers, order, known

    def measure(self, clock: Clock, memory: MethodState) -> MethodState:
        """Return the method's state with the supposed scores in it."""
        self.requests = []
        for request in self._method.requests(clock, self._layers, memory):
            if not isinstance(request, SelectionRequest | WatchRequest):
                found = self._known(request) if isinstance(request, SignalRequest) else None
                memory = self._method.learned(found or self._scores(request.groups), clock, memory)
                self.requests.append(request)
        choices = self._method.requests(clock, self._layers, memory)
        self.requests += [request for request in choices if isinstance(request, SelectionRequest)]
        return memory

    def _scores(self, groups: tuple[str, ...]) -> dict[str, float]:
        count = len(groups)
        if self._order == 0:
            return self._spread(groups)
        return {name: float(place if self._order > 0 else count + 1 - place) for place, name in enumerate(groups, 1)}

    def _spread(self, groups: tuple[str, ...]) -> dict[str, float]:
        """Return scores whose highest are in the lowest, middle and upper third of the layers, for kinds in turn."""
        kinds: dict[str, list[str]] = {}
        for name in groups:
            kinds.setdefault(name.removeprefix(self._layers[name].layer), []).append(name)
        return {
            name: float(len(names) - (place - number % 3 * len(names) // 3) % len(names))
            for number, names in enumerate(kinds.values())
            for place, name in enumerate(names)
        }
