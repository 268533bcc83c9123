"""Count the steps of several optimizers as one step of the training."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from gradgate.errors import RunError
from gradgate.tuner.optimizers import Optimizers, smallest_with_gradient

# A gradient scaler starts at 2**16 and halves at each skipped step: after this many, no gradient overflows.
_MOST_SKIPPED = 32


class Rounds:
    """Detects when every awaited optimizer has stepped on the gradients of one backward pass.

    The order does not matter, and may change. If a gradient scaler lets one step and skips another, the next step on
    new gradients begins a new round, and the one before does not count. An optimizer that steps twice before another
    has also begins a new round, and so does one that steps on gradients computed after the first stepped. A gradient
    is new if it is another tensor than the one seen before, as ``zero_grad()`` leaves none.

    One optimizer alone ends a round with each step, and may not step again on the same gradients: they were computed
    under the plan of the step before.

    Attributes:
        is_late: whether the optimizer that steps now has no gradient, and steps after the end of its round, for which
            it was not awaited. Its step moves nothing, and is not one of the next round.
    """

    def __init__(self, optimizers: Optimizers) -> None:
        self._optimizers = optimizers
        self._awaited: Set[torch.optim.Optimizer] = frozenset()
        self._stepped: set[torch.optim.Optimizer] = set()
        self._seen: dict[torch.optim.Optimizer, tuple[Tensor, Tensor | None] | None] = {}
        self._broken_off = 0
        self._done_on: list[tuple[Tensor, Tensor, int, Tensor]] = []
        self._alone = False
        self.is_late = False

    def expect(self, awaited: Set[torch.optim.Optimizer]) -> None:
        """Wait for these optimizers from now on."""
        self._awaited = awaited
        self._stepped.clear()
        self._seen.clear()

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer is about to step.

        Raises:
            RunError: if the optimizers never step on the gradients of the same backward pass, or one that steps alone
                steps twice on them.
        """
        has_ended = bool(self._done_on) and all(_is_same(*noted) for noted in self._done_on)
        self.is_late = has_ended and not smallest_with_gradient(optimizer, 1)
        if self.is_late:
            return
        if optimizer in self._awaited:
            self._done_on = []
        if has_ended and self._alone and optimizer in self._awaited:
            raise RunError(
                f"{self._optimizers.label(optimizer)} steps a second time on the gradients of one backward pass, whose "
                f"masks are those of the step before. Call step() once after each backward(), and then zero_grad()."
            )
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
                f"{self._optimizers.labels} after each backward pass, and only then clear the gradients; do not "
                f"pass the tuner an optimizer that is never stepped."
            )

    def end(self, optimizer: torch.optim.Optimizer) -> bool:
        """Note that an optimizer has stepped; return True if that ends a round."""
        if optimizer not in self._awaited or self.is_late:
            return False
        self._stepped.add(optimizer)
        if len(self._stepped) == len(self._awaited):
            self._stepped.clear()
            self._seen.clear()
            self._broken_off = 0
            return True
        if not self._seen:
            waiting = (one for one in self._awaited if one not in self._stepped)
            self._seen = {one: next(((p, p.grad) for p in smallest_with_gradient(one, 1)), None) for one in waiting}
        return False

    def remember(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the gradients, after the round that this optimizer ended and the plan that follows."""
        self._alone = len(self._awaited) == 1 and optimizer in self._awaited
        gradients = ((one, one.grad) for one in smallest_with_gradient(optimizer, 2))
        self._done_on = [(one, grad, grad._version, grad.clone()) for one, grad in gradients if grad is not None]

    def _has_new_gradients(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return True if its gradients changed since the first optimizer of the round stepped."""
        if optimizer not in self._seen:
            return False
        before = self._seen[optimizer]
        if before is None:
            return bool(smallest_with_gradient(optimizer, 1))
        parameter, gradient = before
        return parameter.grad is not gradient


def _is_same(parameter: Tensor, gradient: Tensor, version: int, values: Tensor) -> bool:
    """Return True if a parameter still has a gradient; a CUDA graph writes new values without a new version."""
    return parameter.grad is gradient and gradient._version == version and torch.equal(gradient, values)
