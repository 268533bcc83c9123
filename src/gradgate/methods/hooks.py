"""Single hooks: the parts of :class:`Method`'s requests, selection and traits, for methods that need one of them."""

from __future__ import annotations

from gradgate.clock import Clock
from gradgate.layers import LayerMap, Unit
from gradgate.layers.selectors import Selection, select
from gradgate.measure import Measurement, Request, SelectionRequest, WatchRequest
from gradgate.methods.traits import MethodState, MixoutSettings, State, Traits, Watched


class Hooks:
    """Answers of a method in parts; a method may define these instead of ``requests``, ``selection`` and ``traits``.

    Nothing but :class:`Method` asks them.
    """

    def trains(self, parameter_name: str, group: str) -> bool:
        """Return whether the method ever opens this parameter of a group that it opens. By default True."""
        return True

    def measures(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Measurement | None:
        """Return what to measure before the next step. By default None. Pure."""
        return None

    def selects(self, clock: Clock, layers: LayerMap, memory: MethodState) -> SelectionRequest | None:
        """Return which single elements to choose before the next step. By default None. Pure."""
        return None

    def watched(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[str, ...]:
        """Return the groups to watch in the next step. By default none. Pure."""
        return ()

    @property
    def watches(self) -> Watched | None:
        """What to measure of the training's own steps."""
        return None

    @property
    def measures_on_data(self) -> bool:
        """Whether the method measures something on training batches before a step."""
        kind = type(self)
        return kind.measures is not Hooks.measures or kind.selects is not Hooks.selects

    @property
    def decides_by_measuring(self) -> bool:
        """Whether the plan depends on measurements in training."""
        return self.watches is not None or self.measures_on_data

    @property
    def state_of_closed(self) -> State:
        """What happens to the optimizer's state of a group that closes."""
        return "keep"

    @property
    def forgets_what_masks_hold(self) -> bool:
        """Whether single weights that a new mask holds lose their optimizer state."""
        return False

    @property
    def mixing(self) -> MixoutSettings | None:
        """How forward passes mix the trainable weights with their initial values."""
        return None

    @property
    def grouped_by(self) -> Unit:
        """The size of the groups that the method opens and closes."""
        return "layer"

    @property
    def turns_dropout_off(self) -> bool:
        """Whether ordinary dropout is off while the method trains."""
        return False


def hooked_requests(hooks: Hooks, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
    """Return the requests of a method's hooks for the next step."""
    watched = hooks.watched(clock, layers, memory)
    asked = (
        hooks.measures(clock, layers, memory),
        hooks.selects(clock, layers, memory),
        WatchRequest(watched) if watched else None,
    )
    return tuple(request for request in asked if request is not None)


def hooked_selection(hooks: Hooks, layers: LayerMap) -> Selection | None:
    """Return the parameters that :meth:`Hooks.trains` lets through; None if the method does not define it."""
    if type(hooks).trains is Hooks.trains:
        return None
    every = select(layers, "re:.*")
    names = {name for group in layers for name in group.parameter_names if hooks.trains(name, group.name)}
    rows = {name: rows for name, rows in every.rows.items() if name in names}
    return Selection(str(hooks), rows, {name: every.shapes[name] for name in rows})


def hooked_traits(hooks: Hooks) -> Traits:
    """Return the traits that a method's hooks describe."""
    on_weights = hooks.decides_by_measuring and hooks.watches is None
    return Traits(
        unit=hooks.grouped_by,
        state_of_closed=hooks.state_of_closed,
        mixing=hooks.mixing,
        dropout_off=hooks.turns_dropout_off,
        forgets_held=hooks.forgets_what_masks_hold,
        watches=hooks.watches,
        measures="data" if hooks.measures_on_data else "weights" if on_weights else None,
    )
