"""Release gradients: step each parameter as soon as its gradient is computed, then free the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from gradgate.distributed.shards import all_finite
from gradgate.errors import AttachError, NonFiniteError, RunError
from gradgate.tuner.chunked_step import ChunkedStep, steps_by_parameter
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating
from gradgate.tuner.optimizer_groups import ParamGroup, split_by_factor
from gradgate.tuner.optimizers import Optimizers


class GradientRelease(Effect):
    """Steps each open parameter within the backward pass, so that the gradients of few are in memory at a time.

    The optimizer's own step, which comes after, finds no gradient and ends the step of the training. The weights are
    those of an ordinary step, bit for bit.

    Source: Lv et al. 2023, Full Parameter Fine-tuning for Large Language Models with Limited Resources (LOMO),
    https://arxiv.org/abs/2306.09782; the hook is that of PyTorch's tutorial on optimizer steps in the backward pass.

    Args:
        optimizers: all that step the model.
        gating: says what is open.
        chunked: steps one parameter.

    Raises:
        AttachError: if the step of a parameter needs more than its own gradient of one backward pass.
    """

    def __init__(self, optimizers: Optimizers, gating: Gating, chunked: ChunkedStep) -> None:
        self._optimizers, self._gating, self._chunked = optimizers, gating, chunked
        for optimizer in optimizers:
            if not steps_by_parameter(optimizer):
                raise AttachError(
                    f"release_gradients steps each parameter alone, and {type(optimizer).__name__} is not known to "
                    f"step one independently of the others. Use an optimizer of torch.optim, or leave it out."
                )
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            raise AttachError(
                f"release_gradients steps a parameter before its gradient is averaged over the "
                f"{dist.get_world_size()} processes. Leave it out, or train in one process."
            )
        self._factors: Mapping[Tensor, float] = {}
        self._number = 1
        self._done: set[str] = set()
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Register the hooks that step each parameter in the backward pass."""
        names = {id(self._gating.parameters[name]): name for name in self._gating.trainable}
        for optimizer in self._optimizers:
            for number, group in enumerate(optimizer.param_groups):
                for parameter in (p for p in group["params"] if id(p) in names):
                    act = partial(self._act, names[id(parameter)], optimizer, number)
                    self._hooks.append(parameter.register_post_accumulate_grad_hook(act))

    def on_plan(self, coming: ComingStep) -> None:
        """Forget which parameters have been stepped: a new step begins."""
        self._number = coming.done + 1
        self._factors = self._gating.lr_factors()
        self._done.clear()

    def release(self) -> None:
        """Leave the gradients of later backward passes to the optimizer's step."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _act(self, name: str, optimizer: torch.optim.Optimizer, number: int, parameter: Parameter) -> None:
        gate = self._gating.gate_of(name)
        if gate is None or gate.share == 0.0:  # its gradient is not the one that the optimizer gets
            return
        if name in self._done:
            raise RunError(
                f"{name} got a second gradient before the optimizer's step, and release_gradients has stepped it on "
                f"the first. Step after each backward pass: no accumulation, and no reentrant activation "
                f"checkpointing of parameters that layers share. Or leave release_gradients out."
            )
        if not self._done:
            self._refuse_not_finite(parameter)
        self._done.add(name)
        group: ParamGroup = {**optimizer.param_groups[number], "params": [parameter]}
        step = OptimizerStep(self._number, optimizer)
        self._chunked.step_alone(step, split_by_factor(group, self._factors)[0], self._gating.masked_parameter(name))
        parameter.grad = None

    def _refuse_not_finite(self, parameter: Parameter) -> None:
        """Check the first gradient of a backward pass: it shows whether the loss is finite, before a weight moves."""
        if parameter.grad is not None and not all_finite(parameter.grad):
            parameter.grad = None
            raise NonFiniteError(
                f"The gradients of step {self._number} are not finite; the weights are still those of step "
                f"{self._number - 1}. Lower the learning rate, or use bf16 or fp32 instead of fp16."
            )
