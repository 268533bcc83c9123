"""Scale learning rates by selector: factors such as ``{"head": 10, "layers.bottom4": 0.1}``, or ``head=10`` as text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from gradgate.errors import SelectorError, UsageError
from gradgate.layers.map import LayerMap
from gradgate.layers.selectors import Rows, select
from gradgate.specs import shown


def read_lr_scale(texts: Iterable[object]) -> dict[str, float]:
    """Read texts such as ``"layers.*.mlp=0.1"`` into a dictionary of selector to factor.

    Raises:
        UsageError: for anything but a text with a factor, for a repeated selector, and as :func:`checked_lr_scale`.
    """
    scale: dict[str, float] = {}
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"lr_scale has {text!r:.80}. Expected SELECTOR=FACTOR, such as 'head=10'.")
        selector, equals, factor = (part.strip() for part in text.rpartition("="))  # a selector may contain "=" itself
        if not (equals and selector):
            raise UsageError(
                f"lr_scale={shown(text)}: expected SELECTOR=FACTOR, such as 'head=10' or 'layers.*.mlp=0.1'."
            )
        if selector in scale:
            raise UsageError(f"lr_scale gives a factor for {shown(selector)} twice. Expected one; remove the other.")
        try:
            scale[selector] = float(factor)
        except ValueError:
            raise UsageError(
                f"lr_scale={shown(text)}: expected a number after the last '=', such as '{selector}=0.1'."
            ) from None
    return checked_lr_scale(scale)


def checked_lr_scale(scale: Mapping[str, float]) -> dict[str, float]:
    """Return the factors after checking that each is finite and above 0.

    Raises:
        UsageError: for any other factor, with its selector.
    """
    factors: dict[str, float] = {}
    for selector, factor in scale.items():
        try:
            factors[selector] = float(factor)
        except (TypeError, ValueError):
            raise UsageError(
                f"lr_scale has the factor {factor!r:.80} for {shown(selector)}. Expected a number above 0."
            ) from None
        if not (math.isfinite(factors[selector]) and factors[selector] > 0):
            raise UsageError(
                f"lr_scale has the factor {factors[selector]:g} for {shown(selector)}. Expected a finite number above "
                f"0; to freeze weights, use a method such as groups:closed={selector}."
            )
    return factors


def lr_factors(layers: LayerMap, scale: Mapping[str, float], trained_rows: Mapping[str, Rows]) -> dict[str, float]:
    """Return the factor on the learning rate by canonical parameter name, without factors of 1.

    Args:
        layers: the map of the model.
        scale: selector to factor, as :func:`checked_lr_scale` returns it.
        trained_rows: parameters of which a method trains only some rows, with these rows.

    Raises:
        SelectorError: as :func:`select`; if two selectors name one parameter; or if one names some rows of a parameter
            and the method also trains others: an optimizer has one learning rate per parameter.
    """
    factors: dict[str, float] = {}
    chosen_by: dict[str, str] = {}
    for text, factor in scale.items():
        selection = select(layers, text)
        for name, rows in selection.partial.items():
            if not _covers(rows, trained_rows.get(name)):
                raise SelectorError(
                    f"lr_scale names rows of {name} in {shown(text)}, but other rows of it learn too. Name the "
                    f"whole table, as an optimizer has one learning rate for it; or train only these rows, as in "
                    f"groups:open={text}."
                )
        for name in selection.names:
            if name in factors:
                raise SelectorError(
                    f"lr_scale has two factors for {name}: {shown(chosen_by[name])} and {shown(text)} name it. "
                    f"Expected one; exclude it from one of them, as in {text}/!{chosen_by[name]}."
                )
            factors[name], chosen_by[name] = factor, text
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def _covers(rows: Rows, trained: Rows | None) -> bool:
    return trained is not None and all(_within(each, rows) for each in trained)


def _within(one: tuple[int, int], rows: Collection[tuple[int, int]]) -> bool:
    return any(start <= one[0] and one[1] <= stop for start, stop in rows)
