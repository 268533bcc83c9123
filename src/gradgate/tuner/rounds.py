"""Count the steps of several optimizers as one step of the training."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from gradgate.errors import RunError
from gradgate.tuner.optimizers import Optimizers, held_by

# A gradient scaler starts at 2**16 and halves at each skipped step: after this many, no gradient overflows.
_MOST_SKIPPED = 32


class Rounds:
    """Detects when every awaited optimizer has stepped on the gradients of one backward pass.

    The order does not matter, and may change. If a gradient scaler lets one step and skips another, the next step on
    new gradients begins a new round, and the one before does not count. An optimizer that steps twice before another
    has also begins a new round, and so does one that steps on gradients computed after the first stepped. A gradient
    is new if it is another tensor than the one seen before, as ``zero_grad()`` leaves none.

    One optimizer alone ends a round with each step.
    """

    def __init__(self, optimizers: Optimizers) -> None:
        self._optimizers = optimizers
        self._awaited: Set[torch.optim.Optimizer] = frozenset()
        self._stepped: set[torch.optim.Optimizer] = set()
        self._seen: dict[torch.optim.Optimizer, tuple[Tensor, Tensor | None] | None] = {}
        self._broken_off = 0

    def expect(self, awaited: Set[torch.optim.Optimizer]) -> None:
        """Wait for these optimizers from now on; one whose parameters are all closed is not awaited."""
        self._awaited = awaited
        self._stepped.clear()
        self._seen.clear()

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer is about to step.

        Raises:
            RunError: if the optimizers never step on the gradients of the same backward pass.
        """
        if not self._stepped or (optimizer not in self._stepped and not self._has_new_gradients(optimizer)):
            return
        missing = [one for one in self._optimizers if one in self._awaited and one not in self._stepped]
        self._stepped.clear()
        self._seen.clear()
        self._broken_off += 1
        if missing and self._broken_off >= _MOST_SKIPPED:
            late = self._optimizers.label(missing[0])
            raise RunError(
                f"{late} has not stepped on the same gradients as the other optimizers {self._broken_off} times in a "
                f"row, so no step of the training was counted and the plan stands still. Step all of "
                f"{self._optimizers.labels} after each backward pass, and only then clear the gradients; give the "
                f"tuner no optimizer that is not stepped."
            )

    def end(self, optimizer: torch.optim.Optimizer) -> bool:
        """Note that an optimizer has stepped; return True if that ends a round."""
        if optimizer not in self._awaited:
            return False
        self._stepped.add(optimizer)
        if len(self._stepped) == len(self._awaited):
            self._stepped.clear()
            self._seen.clear()
            self._broken_off = 0
            return True
        if not self._seen:
            self._seen = {one: _smallest(one) for one in self._awaited if one not in self._stepped}
        return False

    def _has_new_gradients(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return True if its gradients changed since the first optimizer of the round stepped."""
        if optimizer not in self._seen:
            return False
        before = self._seen[optimizer]
        if before is None:
            return _smallest(optimizer) is not None
        parameter, gradient = before
        return parameter.grad is not gradient


def _smallest(optimizer: torch.optim.Optimizer) -> tuple[Tensor, Tensor | None] | None:
    """Return the smallest parameter with a gradient, and that gradient: it is kept until the round ends."""
    with_gradient = [parameter for parameter in held_by(optimizer) if parameter.grad is not None]
    parameter = min(with_gradient, key=Tensor.numel, default=None)
    return None if parameter is None else (parameter, parameter.grad)
