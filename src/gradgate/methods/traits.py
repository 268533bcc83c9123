"""Define what is fixed about a method, and the state that it keeps between steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from gradgate.layers import Unit

State = Literal["keep", "reset", "drop", "offload"]
Watched = Literal["norm", "change", "weights"]
MixoutUnit = Literal["neuron", "element"]


@dataclass(frozen=True)
class MixoutSettings:
    """Sets how training forward passes mix weights with their initial values; see :class:`gradgate.methods.Mixout`."""

    p: float
    unit: MixoutUnit

    @classmethod
    def from_dict(cls, record: Any) -> MixoutSettings:
        """Return the settings in a record of their names and values; raise ValueError for anything else."""
        match record:
            case {"p": int() | float() as p, "unit": "neuron" | "element" as unit, **others} if not others:
                if 0.0 <= p < 1.0:
                    return cls(float(p), unit)
        raise ValueError(f"mixing is {record!r:.80}: expected values such as {{p: 0.9, unit: neuron}}, p below 1")


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
        by_schedule: whether all that the method reaches opens at steps that are known before, in a training that is
            long enough for it.
    """

    unit: Unit = "layer"
    state_of_closed: State = "keep"
    mixing: MixoutSettings | None = None
    dropout_off: bool = False
    forgets_held: bool = False
    watches: Watched | None = None
    measures: Literal["data", "weights"] | None = None
    by_schedule: bool = False

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

    @property
    def followed(self) -> Traits:
        """The traits that a training by the written plan has, too.

        The names of its groups show the unit, and its phases contain the results of what was measured.
        """
        return Traits(
            state_of_closed=self.state_of_closed,
            mixing=self.mixing,
            dropout_off=self.dropout_off,
            forgets_held=self.forgets_held,
        )

    @classmethod
    def from_dict(cls, record: object) -> Traits:
        """Return the traits in a record, as :meth:`to_dict` makes it.

        Raises:
            ValueError: if the record has other entries or values; the message fits after the name of a file.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"traits is {record!r:.80}: expected a mapping such as {{state_of_closed: drop}}")
        found = dict(record)
        for name, value in record.items():
            if name == "mixing":
                found[name] = MixoutSettings.from_dict(value)
            elif name not in _WORDS:
                raise ValueError(f"unknown entry {name!r:.80} of traits; expected {', '.join([*_WORDS, 'mixing'])}")
            elif value not in _WORDS[name]:
                expected = ", ".join(str(word).lower() for word in _WORDS[name])
                raise ValueError(f"{name} is {value!r:.80}: expected {expected}")
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values of :attr:`followed` for YAML and JSON, without defaults."""
        record = {name: getattr(self, name) for name in _WORDS if getattr(self, name) != getattr(Traits, name)}
        return record if self.mixing is None else record | {"mixing": asdict(self.mixing)}


_WORDS: Mapping[str, tuple[Any, ...]] = {
    "state_of_closed": get_args(State),
    "dropout_off": (False, True),
    "forgets_held": (False, True),
}
"""The entries of a record that are a choice, and what each may be."""


@dataclass(frozen=True)
class MethodState:
    """The state that a method may read besides the clock and the layers.

    Attributes:
        seed: the run's seed.
        notes: what the method measured so far, as JSON values.
    """

    seed: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)
