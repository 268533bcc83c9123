"""Hook into an optimizer's step: find its outermost call, run its closure, and detect skipped steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from gradgate.errors import AttachError


class StepHooks:
    """Calls ``begin`` before and ``end`` after each step of an optimizer, until :meth:`release`.

    A subclass may call the step of its base, which runs torch's hooks again: only the outermost call counts. A step
    that raises has no ``end``, so ``cancel`` is called before the optimizer's state is saved or loaded.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        begin: Callable[[], None],
        end: Callable[[], None],
        cancel: Callable[[], None],
    ) -> None:
        self._begin, self._end = begin, end
        self._call: FrameType | None = None
        self._hooks = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
            optimizer.register_state_dict_pre_hook(lambda *_: cancel()),
            optimizer.register_load_state_dict_pre_hook(lambda *_: cancel()),
        ]

    def release(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    def _before(self, _: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._call is not None and _is_running(self._call):
            return None
        arguments = with_closure_run(args, kwargs)
        self._begin()
        self._call = sys._getframe(1)
        return arguments

    def _after(self, _: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if sys._getframe(1) is self._call:
            self._call = None
            self._end()


def was_skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if a gradient scaler made a fused optimizer skip this step."""
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and bool(found_inf.item())


def with_closure_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Call the closure of a step; return the arguments to pass to the step instead, None without a closure.

    ``args`` begins with the optimizer, as torch's hooks have it.

    The closure computes the gradients of the step once: a step that calls it as usual, before anything else, gets the
    result without computing them again. A step that calls it twice, for gradients at other weights, raises AttachError.
    """
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):
        return None
    with torch.enable_grad():
        results = [closure()]

    def known() -> Any:
        if not results:
            raise AttachError(
                "The optimizer calls its closure more than once in a step, for gradients that the gates cannot act "
                "on. Use one that takes the gradients of one backward pass. "
                f"Found a second call by {type(args[0]).__name__}; expected one."
            )
        return results.pop()

    return (args, {**kwargs, "closure": known}) if "closure" in kwargs else ((args[0], known, *args[2:]), kwargs)


def _is_running(call: FrameType) -> bool:
    """Return True if a function call is still on the stack."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame is not call:
        frame = frame.f_back
    return frame is call
