"""Gate the gradients of a backward pass together, at its end: a launch per parameter keeps the host of a GPU busy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.gates.apply import apply_each_


class Window(NamedTuple):
    """The arguments of :func:`gradgate.gates.apply_` for one gradient."""

    lo: float
    hi: float
    scale: float
    key: int


class Waiting(NamedTuple):
    """A gradient that is gated when the backward pass of this number has ended."""

    task: int
    parameter: Parameter
    window: Window


class GradientBatch:
    """Takes gradients from the hooks of their parameters, and gates them in one launch when all are accumulated.

    It takes a gradient only if nothing is known to use it before: no earlier gradient that it is added to, no hook of a
    module or of another kind on a parameter, no process group. The caller gates all others in the hook. Hooks on the
    nodes of autograd's graph cannot be seen from Python, and get gradients that are not gated yet.

    Args:
        model: whose parameters are gated.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules, self._parameters = tuple(model.modules()), tuple(model.parameters())
        self._waiting: dict[int, Waiting] = {}
        self._task = -1
        self._waits = False

    def settle(self, parameter: Parameter) -> None:
        """Gate what waits for a parameter before a hook on it does anything else.

        It belongs to a pass that this one runs within, or to one that failed.
        """
        if id(parameter) in self._waiting:
            self._gate([self._waiting[id(parameter)]])

    def takes(self, parameter: Parameter, gradient: Tensor, window: Window) -> bool:
        """Take a gradient in a hook of its parameter; return False if the caller must gate it now.

        Args:
            parameter: a leaf that is not sharded, and for which nothing waits.
            gradient: what the hook got, which nothing else refers to, and for which it :meth:`pays`.
            window: how it is gated.
        """
        if parameter.grad is not None or gradient.layout is not torch.strided or not parameter.requires_grad:
            return False
        if len(parameter._backward_hooks or ()) > 1:
            return False
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._task, self._waits = task, not self._is_watched() and _only_accumulates(parameter, gradient)
            if self._waits:
                engine: Any = torch.autograd.Variable._execution_engine
                engine.queue_callback(partial(self._end, task))
        if self._waits:
            self._waiting[id(parameter)] = Waiting(task, parameter, window)
        return self._waits

    def finish(self) -> None:
        """Gate what is left of a backward pass that failed."""
        if self._waiting:
            self._gate(list(self._waiting.values()))

    def forget(self) -> None:
        """Leave what a backward pass that failed has left as it is."""
        self._waiting.clear()

    def pays(self, gradient: Tensor) -> bool:
        """Return True on CUDA, where a launch takes longer than gating most gradients."""
        return gradient.is_cuda

    def _end(self, task: int) -> None:
        self._gate([one for one in list(self._waiting.values()) if one.task == task])

    def _gate(self, waiting: Sequence[Waiting]) -> None:
        alike: dict[tuple[float, float, float], list[Waiting]] = {}
        for one in waiting:
            alike.setdefault((one.window.lo, one.window.hi, one.window.scale), []).append(one)
        for (lo, hi, scale), each in alike.items():
            left = [one for one in each if one.parameter.grad is not None]
            gradients: Any = [one.parameter.grad for one in left]
            with torch.no_grad():
                apply_each_(gradients, lo=lo, hi=hi, scale=scale, keys=[one.window.key for one in left])
            for one in each:  # a launch that fails leaves them waiting
                self._waiting.pop(id(one.parameter), None)

    def _is_watched(self) -> bool:
        """Return True if hooks on modules or parameters may see gradients before the pass has ended."""
        modules: Any = self._modules
        parameters: Any = self._parameters
        return any(module._backward_hooks or module._backward_pre_hooks for module in modules) or any(
            parameter._post_accumulate_grad_hooks for parameter in parameters
        )


def is_unshared(gradient: Tensor) -> bool:
    """Return True if nothing else refers to the gradient that a hook got, so that it may be gated in place.

    Autograd passes one tensor, or views of it, to several leaves if their gradients are equal.
    """
    tensor: Any = gradient  # its reference count is private in torch
    try:
        # References to the tensor: autograd and Python. To its memory: each view, the view's base, and the handle.
        base = tensor._base
        alone = tensor._use_count() == 2 and (base is None or base._use_count() == 2)
        handles: int = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return alone and handles == (2 if base is None else 3) and gradient.is_contiguous()


def _only_accumulates(parameter: Parameter, gradient: Tensor) -> bool:
    """Return True in a pass that only adds gradients to parameters.

    It is False in ``autograd.grad()``, which returns them, under DDP and Horovod, which average them on the way, and
    while a CUDA graph is captured, which would keep the masks of one step.
    """
    if (dist.is_available() and dist.is_initialized()) or "horovod.torch" in sys.modules:
        return False
    if gradient.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    node = torch.autograd.graph.get_gradient_edge(parameter).node
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # of autograd.grad()
        return False
