"""Find what can learn in a model, also while a tuner has closed a part of it."""

from __future__ import annotations

from collections.abc import Container
from weakref import WeakKeyDictionary

from torch import nn

# The ``id`` of each parameter that required a gradient when a tuner attached, by model.
_BEFORE: WeakKeyDictionary[nn.Module, frozenset[int]] = WeakKeyDictionary()


def remember_learning(model: nn.Module) -> None:
    """Note what requires a gradient now, before a tuner closes parts of the model."""
    _BEFORE[model] = _requiring(model)


def forget_learning(model: nn.Module) -> None:
    """Let :func:`learning_ids` read the flags of the model again."""
    _BEFORE.pop(model, None)


def learning_ids(model: nn.Module) -> frozenset[int]:
    """Return the ``id`` of each parameter that requires a gradient, or did before a tuner attached to the model."""
    return _BEFORE[model] if model in _BEFORE else _requiring(model)


def is_frozen(module: nn.Module, learning: Container[int]) -> bool:
    """Return True if a module has parameters and none of them can learn."""
    parameters = list(module.parameters())
    return bool(parameters) and not any(id(parameter) in learning for parameter in parameters)


def _requiring(model: nn.Module) -> frozenset[int]:
    return frozenset(id(parameter) for parameter in model.parameters() if parameter.requires_grad)
