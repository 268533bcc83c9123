"""Turn ordinary dropout off while a method trains with noise of its own."""

from __future__ import annotations

import re
from typing import ClassVar

from torch import nn

from gradgate.model_copies import put_back, replace
from gradgate.tuner.effect import Effect

# Modules that drop by a functional call keep the probability in an attribute. LayerDrop is not dropout.
_PROBABILITY = re.compile(r"(^|_)drop(out)?(_p|_prob|_rate)?$|dropout", re.IGNORECASE)


class DropoutOff(Effect):
    """Sets every dropout probability of a model to 0 until it is released.

    The modules stay in training mode, so that batch norms, LayerDrop and the like work as before.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._before: list[tuple[nn.Module, str, float]] = []

    def attach(self) -> None:
        """Set all of them to 0."""
        self._before = dropout_probabilities(self._model)
        for module, attribute, _ in self._before:
            replace(module, attribute, 0.0)

    def release(self) -> None:
        """Restore the previous values."""
        for module, attribute, _ in self._before:
            put_back(module, attribute)
        self._before = []


def dropout_probabilities(model: nn.Module) -> list[tuple[nn.Module, str, float]]:
    """Return every module, attribute and value that dropout takes its probability from."""
    found = []
    for module in model.modules():
        is_dropout = isinstance(module, nn.modules.dropout._DropoutNd)
        names = ["p"] if is_dropout else [name for name in vars(module) if _PROBABILITY.search(name)]
        found += [(module, name, getattr(module, name)) for name in names if isinstance(getattr(module, name), float)]
    return found
