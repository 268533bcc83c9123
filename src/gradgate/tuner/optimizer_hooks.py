"""Hooks around an optimizer's step: its outermost call, a closure that it is given, and whether it was skipped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from gradgate.errors import AttachError


class StepHooks:
    """Calls ``begin`` before and ``end`` after each step of an optimizer, until :meth:`release`.

    A subclass may call the step of its base, which runs torch's hooks again: only the outermost call counts. After a
    step that raised there is no ``end``, so ``cancel`` is called before the optimizer's state is saved or loaded.
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
    """Whether a gradient scaler made a fused optimizer skip this step."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found.item())


def with_closure_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What to pass to a step that was given a closure, after calling it; None for a step that was not.

    ``args`` begins with the optimizer, as torch's hooks have it.

    The closure computes the gradients that the step is to use, once: a step that calls it as usual, before
    anything else, gets its result without computing them again. One that calls it twice, for gradients at other
    weights, raises AttachError then.
    """
    given = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(given):
        return None
    with torch.enable_grad():
        results = [given()]

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
    """Whether a function call is still on the stack."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame is not call:
        frame = frame.f_back
    return frame is call
