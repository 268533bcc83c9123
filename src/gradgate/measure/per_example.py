"""Compute the squared gradient of each example from one backward pass for the whole batch.

The pass goes to the outputs of the modules that own the wanted parameters. For a linear layer with inputs ``a_t`` and
output gradients ``g_t``, the squared gradient of the weight is ``sum_ts (a_t . a_s) (g_t . g_s)``, after Goodfellow
2015 (https://arxiv.org/abs/1510.01799); a module without such a rule is run again by itself for each example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

CLOSE, TINY = 1e-2, 1e-6


@dataclass(frozen=True)
class Call:
    """One call of a module that owns wanted parameters."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Tensor


Pair = tuple[Call, Tensor]
"""A call, and the gradient of its output."""


class ExampleGradients:
    """Sums over single examples of squared gradients, by parameter.

    The rules are compared with autograd on one example of the first batch. Parameters for which they differ, as in a
    module with another first axis than that of the examples, or with a weight that is also used outside of its module,
    take one backward pass per example.

    Args:
        model: as it is called.
        names: the model's own names of the wanted parameters.
    """

    def __init__(self, model: nn.Module, names: Collection[str]) -> None:
        self._owned: dict[nn.Module, dict[str, str]] = {}
        for prefix, module in model.named_modules():
            full = {name: f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters(recurse=False)}
            if own := {name: whole for name, whole in full.items() if whole in names}:
                self._owned[module] = own
        self._calls: list[Call] = []
        self._trusted: set[str] | None = None

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the calls of the body's forward pass."""
        self._calls = []

        def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            if isinstance(output, Tensor) and output.requires_grad:
                self._calls.append(Call(module, args, kwargs, output))

        # In training, a module with buffers, such as a batch norm, is not the same for one example as for all.
        steady = [module for module in self._owned if not (module.training and any(True for _ in module.buffers()))]
        hooks = [module.register_forward_hook(note, with_kwargs=True) for module in steady]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def squares(self, parts: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, float]:
        """Return the sum of the squared gradients of all examples.

        Args:
            parts: losses of the recorded forward pass, shape ``(parts, examples)``; each part is derived separately.
            parameters: the wanted ones, as the forward pass used them.

        Returns:
            Name to sum, for each parameter that has a gradient.
        """
        sums: dict[str, float] = defaultdict(float)
        for losses in parts:
            found = self._from_outputs(losses)
            if self._trusted is None:
                tested = int(losses.detach().abs().argmax())  # not one without labels, which agrees with anything
                expected = squares(losses[tested], parameters)
                self._trusted = _agreeing({name: float(values[tested]) for name, values in found.items()}, expected)
            known = {name: float(values.sum()) for name, values in found.items() if name in self._trusted}
            left = {name: parameter for name, parameter in parameters.items() if name not in known}
            alone = [squares(loss, left) for loss in losses] if left else []
            for some in (known, *alone):
                for name, value in some.items():
                    sums[name] += value
        self._calls = []
        return sums

    def _from_outputs(self, losses: Tensor) -> dict[str, Tensor]:
        """Return name to squared gradients, shape ``(examples,)``, of parameters whose calls suffice."""
        outputs = [call.output for call in self._calls]
        if not outputs:
            return {}
        gradients = torch.autograd.grad(losses.sum(), outputs, retain_graph=True, allow_unused=True)
        used: dict[nn.Module, list[Pair]] = defaultdict(list)
        for call, gradient in zip(self._calls, gradients, strict=True):
            if gradient is not None:
                used[call.module].append((call, gradient))
        found: dict[str, Tensor] = {}
        for module, pairs in used.items():
            if all(_divides(len(losses), call) for call, _ in pairs):
                rule = _RULES.get(type(module), _replayed)
                values = rule(module, pairs, len(losses))
                found |= {whole: values[name] for name, whole in self._owned[module].items()}
        return found


def squares(loss: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, float]:
    """Return name to squared gradient of a scalar, for each parameter that has a gradient. Keeps the graph."""
    gradients = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True, allow_unused=True)
    return {name: float(_square(g)) for name, g in zip(parameters, gradients, strict=True) if g is not None}


def _divides(rows: int, call: Call) -> bool:
    """Return whether a call can be split into one per example."""
    values = [*call.args, *call.kwargs.values(), call.output]
    tensors = [value for value in values if isinstance(value, Tensor)]
    plain = all(value is None or isinstance(value, Tensor | bool | int | float | str) for value in values)
    return plain and len(tensors) > 1 and all(t.dim() > 0 and len(t) > 0 and len(t) % rows == 0 for t in tensors)


def _linear(module: nn.Module, pairs: list[Pair], rows: int) -> dict[str, Tensor]:
    inputs, gradients = _joined(pairs, rows)
    tokens, wide, high = inputs.shape[1], inputs.shape[2], gradients.shape[2]
    if tokens * (wide + high) < wide * high:
        weight = ((inputs @ inputs.mT) * (gradients @ gradients.mT)).sum(dim=(1, 2))
    else:
        weight = (gradients.mT @ inputs).pow(2).sum(dim=(1, 2))
    return {"weight": weight, "bias": gradients.sum(dim=1).pow(2).sum(dim=1)}


def _layer_norm(module: nn.Module, pairs: list[Pair], rows: int) -> dict[str, Tensor]:
    assert isinstance(module, nn.LayerNorm)
    if len(module.normalized_shape) > 1:
        return _replayed(module, pairs, rows)
    inputs, gradients = _joined(pairs, rows)
    normal = functional.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    weight = (normal * gradients).sum(dim=1).pow(2).sum(dim=1)
    return {"weight": weight, "bias": gradients.sum(dim=1).pow(2).sum(dim=1)}


def _joined(pairs: list[Pair], rows: int) -> tuple[Tensor, Tensor]:
    """Return inputs and output gradients of all calls, each of shape ``(rows, tokens, width)``."""
    inputs = [_by_row(next(iter((*call.args, *call.kwargs.values()))), rows) for call, _ in pairs]
    return torch.cat(inputs, dim=1), torch.cat([_by_row(gradient, rows) for _, gradient in pairs], dim=1)


def _by_row(tensor: Tensor, rows: int) -> Tensor:
    return _upcast(tensor.detach()).reshape(rows, -1, tensor.shape[-1])


def _square(tensor: Tensor) -> Tensor:
    return _upcast(tensor).pow(2).sum()


def _upcast(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _replayed(module: nn.Module, pairs: list[Pair], rows: int) -> dict[str, Tensor]:
    parameters = {name: p.detach().requires_grad_() for name, p in module.named_parameters(recurse=False)}
    found: dict[str, list[Tensor]] = {name: [] for name in parameters}
    for row in range(rows):
        outputs = [
            functional_call(
                module,
                parameters,
                tuple(_row(value, row, rows) for value in call.args),
                {name: _row(value, row, rows) for name, value in call.kwargs.items()},
            )
            for call, _ in pairs
        ]
        upstream = [_row(gradient, row, rows) for _, gradient in pairs]
        gradients = torch.autograd.grad(outputs, list(parameters.values()), upstream, materialize_grads=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            found[name].append(_square(gradient))
    return {name: torch.stack(values) for name, values in found.items()}


_RULES: dict[type[nn.Module], Callable[[nn.Module, list[Pair], int], dict[str, Tensor]]] = {
    nn.Linear: _linear,
    nn.LayerNorm: _layer_norm,
}


def _row(value: Any, row: int, rows: int) -> Any:
    """Return the part of a tensor that belongs to one example; its rows are adjacent."""
    return value.detach().tensor_split(rows)[row] if isinstance(value, Tensor) else value


def _agreeing(found: Mapping[str, float], expected: Mapping[str, float]) -> set[str]:
    """Return the names of values that are as expected, up to rounding."""
    noise = TINY * max(expected.values(), default=0.0)
    known = {name: expected.get(name, 0.0) for name in found}
    return {name for name, value in known.items() if abs(found[name] - value) <= CLOSE * value + noise}
