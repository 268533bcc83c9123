"""Gate the gradients of a backward pass together, at its end: a launch per parameter keeps the host of a GPU busy."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
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

    It takes a gradient only if nothing uses it before: no earlier gradient that it is added to, no other hook on the
    parameter, no process group. The caller gates all others in the hook.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._task = -1
        self._waits = False

    def takes(self, parameter: Parameter, gradient: Tensor, window: Window) -> bool:
        """Take a gradient in a hook of its parameter; return False if the caller must gate it now.

        Args:
            parameter: a leaf that is not sharded.
            gradient: what the hook got, which nothing else refers to, and for which it :meth:`pays`.
            window: how it is gated.
        """
        earlier = self._waiting.pop(id(parameter), None)
        if parameter.grad is not None:
            if earlier is not None:  # of a pass that this one runs within
                _gate([earlier])
            return False
        if gradient.layout is not torch.strided or _is_seen(parameter):
            return False
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._task, self._waits = task, _can_wait(parameter, gradient)
            if self._waits:
                engine: Any = torch.autograd.Variable._execution_engine
                engine.queue_callback(partial(self._end, task))
        if self._waits:
            self._waiting[id(parameter)] = Waiting(task, parameter, window)
        return self._waits

    def finish(self) -> None:
        """Gate what is left of a backward pass that failed."""
        if self._waiting:
            left, self._waiting = self._waiting, {}
            _gate(list(left.values()))

    def pays(self, gradient: Tensor) -> bool:
        """Return True on CUDA, where a launch takes longer than gating most gradients."""
        return gradient.is_cuda

    def _end(self, task: int) -> None:
        ended = {place: one for place, one in self._waiting.items() if one.task == task}
        for place in ended:
            del self._waiting[place]
        _gate(list(ended.values()))


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


def _gate(waiting: list[Waiting]) -> None:
    alike: dict[tuple[float, float, float], list[tuple[Tensor, int]]] = {}
    for _, parameter, (lo, hi, scale, key) in waiting:
        if parameter.grad is not None:
            alike.setdefault((lo, hi, scale), []).append((parameter.grad, key))
    for (lo, hi, scale), each in alike.items():
        gradients, keys = zip(*each, strict=True)
        with torch.no_grad():
            apply_each_(gradients, lo=lo, hi=hi, scale=scale, keys=keys)


def _is_seen(parameter: Any) -> bool:
    """Return True if another hook of a parameter sees its gradient before the pass has ended."""
    return bool(parameter._post_accumulate_grad_hooks) or len(parameter._backward_hooks) > 1


def _can_wait(parameter: Parameter, gradient: Tensor) -> bool:
    """Return True in a pass that only adds gradients to parameters.

    It is False in ``autograd.grad()``, which returns them, under DDP, which averages them on the way, and while a CUDA
    graph is captured, which would keep the masks of one step.
    """
    if dist.is_available() and dist.is_initialized():
        return False
    if gradient.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    node = torch.autograd.graph.get_gradient_edge(parameter).node
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # of autograd.grad()
        return False
