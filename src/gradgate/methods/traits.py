"""Define what is fixed about a method, and the state that it keeps between steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gradgate.layers import Unit

State = Literal["keep", "reset", "drop", "offload"]
Watched = Literal["norm", "change", "weights"]


@dataclass(frozen=True)
class MixoutSettings:
    """Sets how training forward passes mix weights with their initial values; see :class:`gradgate.methods.Mixout`."""

    p: float
    unit: Literal["neuron", "element"]


@dataclass(frozen=True)
class Traits:
    """The fixed properties of a method.

    Attributes:
        unit: the size of the groups that the method opens and closes; it gets ``layers.at(unit)``.
        state_of_closed: what happens to the optimizer's state of a group that closes; see
            :class:`gradgate.methods.HasStateOption`.
        mixing: how forward passes mix the trainable weights with their initial values; None if they do not.
        dropout_off: whether the model's ordinary dropout is off while the method trains it.
        forgets_held: whether single weights that a new mask holds lose their optimizer state.
        watches: what the method measures in the training's own steps, in the groups of its
            :class:`gradgate.measure.WatchRequest`, as a sum of absolute values over elements (L1 norm): the ``norm``
            of the gradients that the optimizer steps on, their ``change`` since the step before, or how far the step
            moved the ``weights``. None for nothing.
        measures: what the method measures before a step and decides by: training ``data``, or the ``weights``
            alone. None for nothing.
    """

    unit: Unit = "layer"
    state_of_closed: State = "keep"
    mixing: MixoutSettings | None = None
    dropout_off: bool = False
    forgets_held: bool = False
    watches: Watched | None = None
    measures: Literal["data", "weights"] | None = None

    @property
    def decides_by_measuring(self) -> bool:
        """Whether the plan depends on measurements in training, so it is not known in advance."""
        return self.measures is not None or self.watches is not None

    @property
    def needed_to_resume(self) -> str | None:
        """The state that a resumed training cannot compute from the number of steps done; None if there is none."""
        if self.mixing is not None:
            return "the weights that it began with"
        return "what it measured" if self.decides_by_measuring else None


@dataclass(frozen=True)
class MethodState:
    """The state that a method may read besides the clock and the layers.

    Attributes:
        seed: the run's seed.
        notes: what the method measured so far, as JSON values.
    """

    seed: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)
