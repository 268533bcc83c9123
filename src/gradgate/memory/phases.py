"""The phases of a training that has not begun, those of methods that measure as far as memory needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.measure import Measurement, SelectionRequest
from gradgate.methods.base import Memory, Method
from gradgate.methods.phases import Phase
from gradgate.methods.plan import Plan
from gradgate.methods.plan_file import next_clock

Request = Measurement | SelectionRequest


@dataclass(frozen=True)
class Stretch:
    """Steps in a row with the same gates.

    Attributes:
        step: optimizer steps done when it begins.
        steps: how many there are.
        plan: the gates.
        supposed: whether the plan rests on a measurement that only the training will make.
        measured: what is measured in it.
        watched: the groups that the method watches in its last step.
    """

    step: int
    steps: int
    plan: Plan
    supposed: bool = False
    measured: tuple[Request, ...] = ()
    watched: tuple[str, ...] = ()


def suppositions(method: Method) -> tuple[int, ...]:
    """Orders of measured groups that are worth a look: the lowest score highest (-1), or the topmost (1).

    The former keeps the most activations from early on, the latter while it measures.
    """
    return (-1, 1) if method.measures_on_data else (1,)


def stretches(method: Method, layers: LayerMap, clock: Clock, seed: int = 0, order: int = 1) -> list[Stretch]:
    """The plans of a whole training in order.

    Args:
        method: what learns when.
        layers: the model's map, at the method's unit.
        clock: the length of the training.
        seed: of the method's draws.
        order: one of :func:`suppositions`.

    Raises:
        MethodError: if the method does not fit the model.
    """
    method.check(layers)
    found: list[tuple[Phase, Plan, list[Request]]] = []
    for step, plan, requests in _plans(method, layers, clock, Memory(seed=seed), order):
        phase = Phase.of(step, plan)
        if not found or found[-1][0].gates != phase.gates:
            found.append((phase, plan, []))
        found[-1][2].extend(requests)
    ends = [*(phase.step for phase, *_ in found[1:]), clock.known_total]
    supposed = method.decides_by_measuring
    return [
        Stretch(
            phase.step,
            end - phase.step,
            plan,
            supposed and phase.step > 0,
            tuple(requests),
            method.watched(replace(clock, step=end - 1), layers, Memory(seed=seed)),
        )
        for (phase, plan, requests), end in zip(found, ends, strict=True)
    ]


def _plans(
    method: Method, layers: LayerMap, clock: Clock, memory: Memory, order: int
) -> Iterator[tuple[int, Plan, list[Request]]]:
    at: Clock | None = clock
    while at is not None:
        request = method.measures(at, layers, memory)
        selection = method.selects(at, layers, memory)
        requests: list[Request] = [one for one in (request, selection) if one is not None]
        if request is not None:
            count = len(request.groups)
            scores = {
                name: float(place + 1 if order > 0 else count - place) for place, name in enumerate(request.groups)
            }
            memory = method.learned(scores, at, memory)
        yield at.step, method.checked_plan(at, layers, memory), requests
        at = next_clock(method, layers, at, memory)
