"""One example of each method in the catalogue: a new entry is in every test that uses them."""

from __future__ import annotations

import pytest

from gradgate import Method, MethodInfo, method, methods

EVERY_METHOD = pytest.mark.parametrize("entry", methods(), ids=lambda entry: entry.name)


def example(entry: MethodInfo, layers: int, **options: object) -> Method:
    """A method of this entry for a model with so many layers, with those of the options that it has."""
    required = {
        "freeze": {"layers": layers - 1},
        "order": {"layers": "/".join(map(str, range(layers)))},
        "groups": {"open": "layers/head"},
    }
    own = required.get(entry.name, {}) | {name: value for name, value in options.items() if name in entry.defaults}
    return method(f"{entry.name}:{','.join(f'{name}={value}' for name, value in own.items())}")
