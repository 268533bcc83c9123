"""Keep the flags that a tuner set when PEFT switches adapters in the middle of a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import Parameter

from gradgate.model_copies import noted
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating

_SWITCHED = (("peft.tuners.tuners_utils", "BaseTunerLayer"), ("peft.utils.other", "AuxiliaryTrainingWrapper"))


class SwitchedAdapters(Effect):
    """Closes again what PEFT opens when it switches adapters.

    DPO and GRPO switch to another adapter, or to none, for the outputs of the reference model. When PEFT switches back
    it sets ``requires_grad`` of the whole adapter. Then layers that are closed would get gradients, which clipping
    counts, and a checkpoint would be recomputed with other flags than it was made with. So they are closed again before
    each forward pass, before each backward pass through what the model returned, and before a step.

    Args:
        model: without wrappers such as DDP.
        gating: says what is closed.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, model: nn.Module, gating: Gating) -> None:
        self._model = model
        inside = {id(parameter) for parameter in switched_parameters(model)}
        self._own = {name: p for name, p in gating.parameters.items() if p.requires_grad and id(p) in inside}
        self._closed: list[Parameter] = []
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Register hooks on the model's passes, if anything in it can be switched."""
        if self._own:
            self._hooks = [
                noted(self._model.register_forward_pre_hook(lambda *_: self._close())),
                noted(self._model.register_forward_hook(lambda module, args, output: self._before_backward(output))),
            ]

    def on_plan(self, coming: ComingStep) -> None:
        """Note which parameters are closed."""
        self._closed = [parameter for name, parameter in self._own.items() if name not in coming.opened]

    def before_step(self, step: OptimizerStep) -> None:
        """Close what was switched after the backward pass, as for a logged divergence: the audit looks at it."""
        self._close()

    def release(self) -> None:
        """Remove every hook."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._closed = [], []

    def _close(self) -> None:
        for parameter in self._closed:
            if parameter.requires_grad:
                parameter.requires_grad_(False)

    def _before_backward(self, output: Any) -> None:
        for tensor in _tensors(output):
            if tensor.requires_grad and not tensor.is_leaf:
                hook: Any = tensor.register_hook  # untyped in torch
                hook(lambda _: self._close())


def switched_parameters(model: nn.Module) -> Iterator[Parameter]:
    """Yield the parameters of PEFT's layers; none if PEFT was never imported."""
    kinds = tuple(kind for home, name in _SWITCHED if (kind := getattr(sys.modules.get(home), name, None)))
    for module in model.modules():
        if isinstance(module, kinds):
            yield from module.parameters()


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
