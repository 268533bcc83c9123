"""Expand a sweep: one text, such as ``freeze:step=3``, for a row of methods over the layers of the model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import ClassVar

from gradgate.errors import UsageError, nearest
from gradgate.layers import LayerMap
from gradgate.methods import Freeze, Full, Head
from gradgate.settings.arms.arm import Arm
from gradgate.specs import Syntax, shown


@dataclass(frozen=True, kw_only=True)
class FreezeSweep:
    """Full fine-tuning, then more and more frozen layers from the bottom, up to the head alone.

    Args:
        step: layers between two points; the head alone is always the last point. The paper has every point from
            half of the layers up (step 1).

    Source:
        What would Elsa do? (Lee et al. 2019), Sec. 3: https://arxiv.org/abs/1911.03090
    """

    name: ClassVar[str] = "freeze"
    reference: ClassVar[Arm] = Arm(Full())
    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1:
            raise UsageError(f"The sweep {self.name!r} cannot have step={self.step} (expected 1 or more layers).")

    def arms(self, layers: LayerMap, known: Collection[Arm] = ()) -> list[Arm]:
        """Return the points of the sweep, the reference first.

        Args:
            layers: of the model.
            known: arms that run anyway. If ``head`` is one of them, the last point is left out: to freeze every layer
                is the same training under another name.

        Raises:
            UsageError: if the model has fewer layers than ``step``.
        """
        count = layers.layer_count
        if self.step > count:
            raise UsageError(
                f"The sweep {self.name!r} has step={self.step}, but the model has {count} layers. Use 1 to {count}."
            )
        points = [*range(self.step, count, self.step), count]
        if Arm(Head()) in known:
            points.remove(count)
        return [self.reference, *(Arm(Freeze(layers=frozen)) for frozen in points)]


_MOST_DIGITS = 9
_SWEEPS = {FreezeSweep.name: FreezeSweep}
_SYNTAX = Syntax("sweep", hint=lambda name: "options: step=1, a whole number of layers")


def read_sweep(text: str) -> FreezeSweep:
    """Read the sweep that a text such as ``"freeze"`` or ``"freeze:step=3"`` names.

    Raises:
        UsageError: for an unknown sweep or option, or a value that is out of range.
    """
    spec = _SYNTAX.parse(text)
    kind = _SWEEPS.get(spec.name)
    if kind is None:
        raise UsageError(
            f"There is no sweep {shown(spec.name)}.{nearest(spec.name, _SWEEPS)} Known: freeze (full, "
            f"freeze:layers=1, 2, ... up to the head alone), freeze:step=3 (every third of these). Single methods are "
            f"given with method=."
        )
    spec.check_options([option.name for option in fields(kind)])
    for option, value in spec.pairs:
        if not (value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS):
            got = shown(f"{option}={value}")
            raise UsageError(f"The sweep {spec.name!r} needs a whole number of layers, as in step=3; got {got}.")
    return kind(**{option: int(value) for option, value in spec.pairs})
