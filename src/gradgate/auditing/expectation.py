"""Check what the user expects to learn, and find it in a model whose layers are known or not."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from gradgate.errors import GradgateError, UsageError
from gradgate.layers.map import LayerMap
from gradgate.layers.names import named_parameters
from gradgate.layers.selectors import Selection, check_selector, select
from gradgate.layers.units import Group, Weight


@dataclass(frozen=True)
class Expectation:
    """A selector of the weights that should learn, such as ``layers.top4/head``."""

    selector: str

    def select(self, model: nn.Module, layers: LayerMap | None) -> tuple[Selection | None, str]:
        """Return the selection, or None and why there is none.

        A model without a layer map has one group, so that marks such as ``@bias`` and ``re:REGEX`` work.
        """
        try:
            return select(_unmapped(model) if layers is None else layers, self.selector), ""
        except GradgateError as error:
            missing = "" if layers is not None else " The layers of this model cannot be found; use re:REGEX."
            return None, f"{error}{missing}"


def check_request(expect: str | None, steps: int | None) -> None:
    """Check what of an audit's request can be checked before there is a model.

    Args:
        expect: selector of the weights that should learn; None for no expectation.
        steps: a step to look at as well; None for none.

    Raises:
        SelectorError: for a selector that no model has.
        UsageError: for a step below 1, or a value of another type.
    """
    if steps is not None and not (isinstance(steps, int) and steps >= 1):
        raise UsageError(f"steps={steps!r:.80}: expected a step number, 1 or more.")
    if not isinstance(expect, str | None):
        raise UsageError(f"expect={expect!r:.80}: expected a selector, such as 'layers.top4/head'.")
    if expect is not None:
        check_selector(expect)


def _unmapped(model: nn.Module) -> LayerMap:
    parameters = named_parameters(model)
    weights = {name: Weight(tuple(each.shape), "other") for name, each in parameters.items()}
    count = sum(weight.count for weight in weights.values())
    return LayerMap(type(model).__name__, (Group("layers.0", 1, tuple(weights), count),), weights=weights)
