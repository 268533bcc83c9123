"""Run AdapterDrop: train without adapters in a random number of the lowest layers in each step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gradgate import gates
from gradgate.adapters.attach import attached, inner
from gradgate.adapters.stack import layer_numbers
from gradgate.errors import AdapterError


def layers_dropped(step: int, most: int, seed: int) -> int:
    """Draw the number of lowest layers that run without adapters in a step: uniform over 0 to ``most``.

    A pure function, so a resumed training draws the same numbers as an uninterrupted one. Source: AdapterDrop,
    https://arxiv.org/abs/2010.11918 (robust training).
    """
    key = gates.key(seed=seed, stream="adapter-drop", name="layers", draw=step)
    return int(gates.uniform(key) * (most + 1))


class RandomDrop:
    """Skips the adapters of the lowest layers in training: :func:`layers_dropped` of them in each step.

    Every forward in training mode is a step; ``step`` can be set, as when a training resumes or if one optimizer step
    has several forwards. Evaluation skips the ``skip_layers`` of :func:`activate`. Under ``torch.compile`` each number
    of layers is compiled once. It ends with :meth:`remove`, or when the model's last adapter is removed.

    Args:
        model: with adapters.
        most: the largest number of layers, from 0 to the number of layers.
        seed: of the draws.

    Attributes:
        step: number of steps drawn.

    Raises:
        AdapterError: if the model has no adapters, or fewer layers, or ``most`` is not a whole number.
    """

    def __init__(self, model: nn.Module, *, most: int, seed: int = 0) -> None:
        found = attached(model)
        if found is None:
            raise AdapterError("There is nothing to drop: the model has no adapters. Add or load one first.")
        if not isinstance(most, int):
            raise AdapterError(f"most={most!r:.100}: expected a number of layers, such as 2. Pass a whole number.")
        layer_numbers(found, most)
        self.step, self._most, self._seed = 0, most, seed
        self._setup = found.setup
        self._setup.random = True
        eagerly: Any = torch.compiler.disable  # untyped in torch
        # First: a tuner's own hook puts closed layers into evaluation mode, and the model with them.
        self._hook: Any = inner(model).register_forward_pre_hook(eagerly(self._before_forward), prepend=True)
        found.hooks.append(self._hook)

    def _before_forward(self, module: nn.Module, args: object) -> None:
        self._setup.dropped = 0
        if module.training:
            self._setup.dropped = layers_dropped(self.step, self._most, self._seed)
            self.step += 1

    def remove(self) -> None:
        """Stop dropping."""
        self._hook.remove()
        self._setup.dropped, self._setup.random = 0, False
