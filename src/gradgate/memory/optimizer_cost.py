"""Measure the memory of an optimizer per parameter: its state, and the peak while it steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import Parameter

from gradgate.errors import UsageError, nearest
from gradgate.hub import first_line
from gradgate.memory.live_bytes import LiveBytes

MakeOptimizer = Callable[[list[Parameter]], torch.optim.Optimizer]


class ParameterCost(NamedTuple):
    """The memory of an optimizer for one parameter, in bytes.

    Attributes:
        state: of the optimizer's state.
        first: the peak beyond that in the parameter's first step.
        later: the same in later steps.
        left: the part of it that stays alive until the next parameter has been stepped.
    """

    state: int
    first: int
    later: int
    left: int


def _adafactor(parameters: list[Parameter]) -> torch.optim.Optimizer:
    from transformers.optimization import Adafactor

    made: torch.optim.Optimizer = Adafactor(parameters, lr=1e-3, scale_parameter=False, relative_step=False)
    return made


# As Trainer builds them, but one parameter at a time: foreach would need copies of all parameters at once.
_EXECUTED: dict[str, MakeOptimizer] = {
    "adamw_torch": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
    "adamw_torch_fused": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3, foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-3, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, foreach=False),
    "adafactor": _adafactor,
}
_FUSED = ("adamw_torch_fused",)
# Name -> states per element, bits of each, and elements per float32 scale: torchao's, then bitsandbytes'.
_QUANTIZED = {
    "adamw_torch_8bit": (2, 8, 256),
    "adamw_torch_4bit": (2, 4, 128),
    "adamw_8bit": (2, 8, 256),
    "adamw_bnb_8bit": (2, 8, 256),
    "lion_8bit": (1, 8, 256),
    "rmsprop_bnb_8bit": (1, 8, 256),
}
_LEAST_QUANTIZED = 4096  # elements; both libraries store the states of smaller parameters in float32
OPTIMIZERS = (*_EXECUTED, *_QUANTIZED)
OWN_PRECISION = tuple(_QUANTIZED)
"""Optimizers that store their states in an own format and take no float32 masters."""


class OptimizerCost:
    """Measures one optimizer on fake tensors, once per shape; 8-bit and 4-bit ones are computed from their layout.

    Args:
        optimizer: a name of Trainer's, or a function that makes an optimizer of parameters.

    Raises:
        UsageError: for an unknown name.
    """

    def __init__(self, optimizer: str | MakeOptimizer) -> None:
        if isinstance(optimizer, str) and optimizer not in OPTIMIZERS:
            raise UsageError(
                f"Cannot estimate memory for optim={optimizer!r}.{nearest(optimizer, OPTIMIZERS)} Expected one of "
                f"{', '.join(OPTIMIZERS)}; in Python also a function that makes an optimizer of parameters."
            )
        self._name = optimizer if isinstance(optimizer, str) else ""
        self._make = optimizer if callable(optimizer) else _EXECUTED.get(optimizer)
        self._costs: dict[Any, ParameterCost] = {}
        self._mode = FakeTensorMode()

    def of(self, shape: tuple[int, ...], dtype: torch.dtype) -> ParameterCost:
        """Return the cost of a parameter."""
        key = shape, dtype
        if key not in self._costs:
            quantized = _QUANTIZED.get(self._name)
            elements = torch.Size(shape).numel()
            if quantized and elements >= _LEAST_QUANTIZED:
                states, bits, block = quantized
                self._costs[key] = ParameterCost(states * (elements * bits // 8 + 4 * -(-elements // block)), 0, 0, 0)
            elif quantized:
                self._costs[key] = ParameterCost(4 * quantized[0] * elements, 0, 0, 0)
            else:
                self._costs[key] = self._measured(shape, dtype)
        return self._costs[key]

    def _measured(self, shape: tuple[int, ...], dtype: torch.dtype) -> ParameterCost:
        with self._mode:
            state, (first, later) = self._stepped(1, shape, dtype)
            # A second parameter shows what the first one leaves alive while the next one is stepped.
            _, (_, both) = self._stepped(2, shape, dtype)
        if self._name in _FUSED:
            return ParameterCost(state, 0, 0, 0)
        return ParameterCost(state, first - state, later - state, both - 2 * state - (later - state))

    def _stepped(self, count: int, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[int, list[int]]:
        """Return the bytes of the states of ``count`` equal parameters, and the peaks of two steps."""
        assert self._make is not None
        parameters = [Parameter(torch.empty(shape, dtype=dtype)) for _ in range(count)]
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        optimizer = _made(self._make, parameters)
        live = LiveBytes()
        live.count([*parameters, *(p.grad for p in parameters if p.grad is not None), *_tensors(optimizer)])
        begin = live.now - sum(tensor.nbytes for tensor in _tensors(optimizer))
        peaks = []
        for _ in range(2):
            live.restart_peak()
            with live, _values_read_as_of_late_steps(), _named_errors(optimizer):
                optimizer.step()
            peaks.append(live.peak - begin)
        return live.now - begin, peaks


def _made(make: MakeOptimizer, parameters: list[Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer of a function.

    Raises:
        UsageError: if the function fails, or returns something else.
    """
    try:
        made: Any = make(parameters)
    except Exception as error:  # any function runs here
        raise UsageError(
            f"optim= failed with {type(error).__name__}: {first_line(error)}. Expected a function that takes a list of "
            f"parameters and returns an optimizer, such as torch.optim.AdamW."
        ) from error
    if not callable(getattr(made, "step", None)) or not hasattr(made, "state"):
        raise UsageError(
            f"optim= returned {type(made).__name__}: expected a function that takes a list of parameters and returns "
            f"an optimizer, such as torch.optim.AdamW."
        )
    optimizer: torch.optim.Optimizer = made
    return optimizer


def _values_read_as_of_late_steps() -> AbstractContextManager[Any]:
    """Let an optimizer read its count of steps, as torch's Adafactor does, on tensors without values."""
    return mock.patch.object(Tensor, "item", return_value=1000.0)


@contextmanager
def _named_errors(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Turn errors of an optimizer's own code into one that names it."""
    try:
        yield
    except Exception as error:  # any optimizer's code runs here
        raise UsageError(
            f"Cannot estimate memory for {type(optimizer).__name__}: a step of it fails without data "
            f"({first_line(error)}). Expected an optimizer that computes with tensors alone, without a closure; name a "
            f"similar one of {', '.join(OPTIMIZERS)}."
        ) from error


def _tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
