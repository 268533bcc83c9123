"""Collect what a method defines by single hooks, instead of ``requests``, ``selection`` or ``traits``.

:class:`Method` has no defaults for these, and only this module looks for them:

- ``measures(clock, layers, memory)``: what to measure before the next step, or None.
- ``selects(clock, layers, memory)``: the choice of single elements before the next step, or None.
- ``watched(clock, layers, memory)``: the groups to watch in the next step.
- ``trains(parameter_name, group)``: whether the method ever opens this parameter of a group that it opens.
- ``grouped_by``, ``state_of_closed``, ``mixing``, ``turns_dropout_off``, ``forgets_what_masks_hold`` and ``watches``:
  the traits ``unit``, ``state_of_closed``, ``mixing``, ``dropout_off``, ``forgets_held`` and ``watches``.
- ``measures_on_data``: whether the method measures on training batches; by default if it has ``measures`` or
  ``selects``.
- ``decides_by_measuring``: whether the plan depends on measurements; by default if it measures on data.
"""

from __future__ import annotations

from typing import Any

from gradgate.clock import Clock
from gradgate.layers import LayerMap
from gradgate.layers.selectors import Selection, select
from gradgate.measure import Request, WatchRequest
from gradgate.methods.traits import MethodState, Traits

_TRAITS = {
    "grouped_by": "unit",
    "state_of_closed": "state_of_closed",
    "mixing": "mixing",
    "turns_dropout_off": "dropout_off",
    "forgets_what_masks_hold": "forgets_held",
    "watches": "watches",
}


def hooked_requests(method: Any, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
    """Return the requests of a method's hooks for the next step."""
    names = [name for name in ("measures", "selects") if _has(method, name)]
    asked = [getattr(method, name)(clock, layers, memory) for name in names]
    if _has(method, "watched") and (groups := method.watched(clock, layers, memory)):
        asked.append(WatchRequest(groups))
    return tuple(request for request in asked if request is not None)


def hooked_selection(method: Any, layers: LayerMap) -> Selection | None:
    """Return the parameters that ``trains`` accepts; None if the method does not define it."""
    if not _has(method, "trains"):
        return None
    every = select(layers, "re:.*")
    names = {name for group in layers for name in group.parameter_names if method.trains(name, group.name)}
    rows = {name: rows for name, rows in every.rows.items() if name in names}
    return Selection(str(method), rows, {name: every.shapes[name] for name in rows})


def hooked_traits(method: Any) -> Traits:
    """Return the traits that a method's hooks describe."""
    found: dict[str, Any] = {_TRAITS[hook]: getattr(method, hook) for hook in _TRAITS if _has(method, hook)}
    measures = _has(method, "measures") or _has(method, "selects")
    on_data = method.measures_on_data if _has(method, "measures_on_data") else measures
    decides = method.decides_by_measuring if _has(method, "decides_by_measuring") else on_data
    on_weights = decides and found.get("watches") is None
    return Traits(**found, measures="data" if on_data else "weights" if on_weights else None)


def _has(method: Any, hook: str) -> bool:
    return hasattr(type(method), hook)
