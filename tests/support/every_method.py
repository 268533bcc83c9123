"""Examples of each method in the catalogue: a new entry is in every test that uses them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from gradgate import Group, LayerMap, Method, MethodInfo, method, methods
from gradgate.errors import MethodError
from gradgate.methods import HasUnitOption
from gradgate.methods.options import option_types

EVERY_METHOD = pytest.mark.parametrize("entry", methods(), ids=lambda entry: entry.name)
OPTIONS = {float: st.floats(0.0, 1.0), int: st.integers(0, 12), bool: st.booleans()}
FOUR = LayerMap(
    "Four",
    tuple(
        Group(name, depth, (f"{name}.weight",), 1)
        for depth, name in enumerate(("embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "head"))
    ),
)


@st.composite
def a_method(draw: st.DrawFn, entry: MethodInfo) -> Method:
    """Any method of whole layers that its own checks let through; what must be given is as in the example."""
    hints = option_types(entry.cls)
    # A map of bare groups has no other units than layers, and any text is no selector or tower.
    free = {name: hints[name] for name, default in entry.defaults.items() if default is not ...}
    free = {name: kind for name, kind in free.items() if name not in ("unit", "only", "open", "closed", "tower")}
    unit = {"unit": "layer"} if issubclass(entry.cls, HasUnitOption) else {}
    options = {name: draw(OPTIONS[kind] if kind in OPTIONS else st.from_type(kind)) for name, kind in free.items()}
    try:
        return replace(example(entry, 4, **unit), **options)
    except MethodError:
        assume(False)
        raise


def example(entry: MethodInfo, layers: int, **options: object) -> Method:
    """A method of this entry for a model with so many layers, with those of the options that it has."""
    required = {
        "freeze": {"layers": layers - 1},
        "order": {"layers": "/".join(map(str, range(layers)))},
        "groups": {"open": "layers/head"},
        "hft": {"every": 100},  # in one round it opens half of what it reaches
        "grades": {"tau": 2.2, "unit": "layer"},
    }
    own = required.get(entry.name, {}) | {name: value for name, value in options.items() if name in entry.defaults}
    return method(f"{entry.name}:{','.join(f'{name}={value}' for name, value in own.items())}")
