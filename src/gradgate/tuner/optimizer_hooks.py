"""Hook into an optimizer's step: find its outermost call, run its closure, and detect skipped steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from gradgate.errors import AttachError
from gradgate.tuner.optimizers import acting, nested, smallest_with_gradient


class StepHooks:
    """Calls ``begin`` before and ``end`` after each step of an optimizer, until :meth:`release`.

    A subclass may call the step of its base, which runs torch's hooks again: only the outermost call counts. A step
    that raises has no ``end``, so ``cancel`` is called before the optimizer's state is saved or loaded.

    A rule around another optimizer, such as SAM or Lookahead, steps when that one does, whether by its own ``step``,
    with or without a closure, or by methods of its own such as ``second_step``. So ``begin`` is called before the inner
    step, and ``end`` after the outer one, or after the inner one if no outer one runs.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        begin: Callable[[], None],
        end: Callable[[], None],
        cancel: Callable[[], None],
    ) -> None:
        self._begin, self._end = begin, end
        self._acting = acting(optimizer)
        self._calls: list[FrameType] = []
        self._begun = False
        followed = [one for one in nested(optimizer) if one is optimizer or acting(one) is self._acting]
        self._hooks = [hook for one in followed for hook in self._registered(one, cancel)]

    def _registered(self, optimizer: torch.optim.Optimizer, cancel: Callable[[], None]) -> list[Any]:
        return [
            _LastPreHook(optimizer, self._before),
            optimizer.register_step_post_hook(self._after),
            optimizer.register_state_dict_pre_hook(lambda *_: cancel()),
            optimizer.register_load_state_dict_pre_hook(lambda *_: cancel()),
        ]

    def release(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    def _before(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._calls:
            self._calls = [call for call in self._calls if _is_running(call)]
        self._begun = self._begun and bool(self._calls)
        arguments = None
        if optimizer is self._acting and not self._begun:
            _refuse_in_backward(optimizer)
            closure = ClosureRun.of(args, kwargs)
            self._begin()
            self._begun = True
            arguments = None if closure is None else closure.arguments(args, kwargs)
        self._calls.append(sys._getframe(1))
        return arguments

    def _after(self, _: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._calls and sys._getframe(1) is self._calls[-1]:
            self._calls.pop()
        if self._begun and not self._calls:
            self._begun = False
            self._end()


def _refuse_in_backward(optimizer: torch.optim.Optimizer) -> None:
    if torch._C._current_graph_task_id() != -1:
        raise AttachError(
            f"{type(optimizer).__name__} steps within the backward pass, while gradients are still computed, so the "
            f"training step that it belongs to is unknown. Step after backward(); release_gradients=True saves the "
            f"same memory."
        )


def was_skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if a gradient scaler made a fused optimizer skip this step."""
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and bool(found_inf.item())


class ClosureRun:
    """The closure of a step, run once: a step that calls it gets the result without computing gradients again.

    A step that calls it twice, for gradients at other weights, raises AttachError.

    Args:
        optimizer: that steps.
        closure: computes the gradients, and returns the loss.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any]) -> None:
        self._optimizer = optimizer
        with torch.enable_grad():
            self._results = [closure()]
        self._seen: list[tuple[Any, Any]] = []

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ClosureRun | None:
        """Run the closure among the arguments of a step, which begin with the optimizer; None without one."""
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        return cls(args[0], closure) if callable(closure) else None

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the step with the result in place of the closure, once the gates have acted."""
        # A rule such as SAM clears the gradients for a second pass.
        self._seen = [(parameter, parameter.grad) for parameter in smallest_with_gradient(self._optimizer, 4)]
        if "closure" in kwargs:
            return args, {**kwargs, "closure": self._known}
        return (args[0], self._known, *args[2:]), kwargs

    def _known(self) -> Any:
        if not self._results or any(parameter.grad is not gradient for parameter, gradient in self._seen):
            raise AttachError(
                "The optimizer calls its closure more than once in a step, for gradients that the gates cannot act "
                "on. Use one that takes the gradients of one backward pass. "
                f"Found a second call by {type(self._optimizer).__name__}; expected one."
            )
        return self._results.pop()


class _LastPreHook:
    """A hook before a step that stays the last one: those that are registered later may still clip gradients."""

    def __init__(self, optimizer: torch.optim.Optimizer, hook: Callable[..., Any]) -> None:
        self._optimizer = optimizer
        self._own: Any = optimizer.register_step_pre_hook
        self._hooks: Any = optimizer._optimizer_step_pre_hooks
        self._handle = self._own(hook)
        vars(optimizer)["register_step_pre_hook"] = self._register

    def _register(self, hook: Any) -> Any:
        handle = self._own(hook)
        self._hooks.move_to_end(self._handle.id)
        return handle

    def remove(self) -> None:
        """Remove the hook."""
        vars(self._optimizer).pop("register_step_pre_hook", None)
        self._handle.remove()


def _is_running(call: FrameType) -> bool:
    """Return True if a function call is still on the stack."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame is not call:
        frame = frame.f_back
    return frame is call
