"""Measure what a method watches in ordinary steps: gradient sizes, their changes, or how far weights move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter

from gradgate.clock import Clock
from gradgate.distributed.replicas import Replicas
from gradgate.distributed.shards import whole
from gradgate.errors import AttachError, RunError
from gradgate.layers import LayerMap
from gradgate.measure import WatchRequest
from gradgate.methods.base import Method
from gradgate.methods.traits import MethodState, Watched
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating


class Watching(Effect):
    """Measures the groups that a method watches in each step, without a pass of its own.

    Args:
        gating: has the model's parameters.
        replicas: the processes; all continue with the same sizes.
        method: what asks.

    Raises:
        AttachError: if what it asks for cannot be watched in shards.
    """

    def __init__(self, gating: Gating, replicas: Replicas, method: Method) -> None:
        self._gating, self._replicas = gating, replicas
        self._group_of: dict[str, str] = {}
        self._sizes: dict[str, Tensor] = {}

    def on_plan(self, coming: ComingStep) -> None:
        """Watch the groups of the coming plan."""
        members = {name: group for group in coming.watched for name in self._gating.groups[group]}
        self._group_of = {name: group for name, group in members.items() if name in coming.opened}
        self._sizes = {}

    def sizes(self) -> dict[str, float]:
        """Return the size of each watched group that has one in the last step; the same in all processes."""
        if not self._group_of:
            return {}
        sizes: dict[str, float] = {}
        values = torch.stack([size.to("cpu") for size in self._sizes.values()]).tolist() if self._sizes else []
        for name, value in zip(self._sizes, values, strict=True):
            sizes[self._group_of[name]] = sizes.get(self._group_of[name], 0.0) + value
        return self._replicas.mean(sizes)

    def _own(self, step: OptimizerStep) -> Iterator[tuple[str, Parameter]]:
        """Yield the watched parameters that an optimizer is to step."""
        for name in self._group_of:
            parameter = self._gating.parameters[name]
            if parameter.grad is not None and step.holds(parameter):
                yield name, parameter

    def _note(self, name: str, tensor: Tensor) -> None:
        self._sizes[name] = whole(tensor.abs().sum(dtype=torch.float32))


class GradientNorms(Watching):
    """Sizes of gradients."""

    def before_step(self, step: OptimizerStep) -> None:
        """Measure the gradients as the optimizer gets them."""
        for name, parameter in self._own(step):
            self._note(name, _unscaled(parameter, step))


class GradientChanges(Watching):
    """Sizes of the differences between the gradients of consecutive steps; the last gradients are stored."""

    state_name: ClassVar[str] = "gradients"

    def __init__(self, gating: Gating, replicas: Replicas, method: Method) -> None:
        super().__init__(gating, replicas, method)
        self._past: dict[str, Tensor] = {}
        if replicas.sharded:
            raise AttachError(
                f"{method.spec!r} compares gradients with those of the step before, which a saved state must have "
                f"whole, and FSDP2 keeps shards. Use metric=norm or metric=weights, or DDP."
            )

    def on_plan(self, coming: ComingStep) -> None:
        """Watch the groups of the coming plan, and forget the gradients of those that are no longer watched."""
        super().on_plan(coming)
        self._past = {name: past for name, past in self._past.items() if name in self._group_of}

    def before_step(self, step: OptimizerStep) -> None:
        """Measure the change of the gradients that the optimizer gets, and store them."""
        for name, parameter in self._own(step):
            gradient = _unscaled(parameter, step)
            if name in self._past:
                self._note(name, gradient - self._past[name])
                self._past[name].copy_(gradient)
            else:
                self._past[name] = gradient.clone()

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the gradients of the last step."""
        return self._past

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the gradients of the last step.

        Raises:
            RunError: if they are of other parameters.
        """
        for name, tensor in tensors.items():
            parameter = self._gating.parameters.get(name)
            if parameter is None or parameter.shape != tensor.shape:
                raise RunError(
                    f"The saved gradient of {name} has shape {tuple(tensor.shape)}; expected "
                    f"{'no such parameter' if parameter is None else tuple(parameter.shape)}. Load the model that the "
                    f"state was saved with."
                )
        self._past = {name: tensor.to(self._gating.parameters[name].device) for name, tensor in tensors.items()}


class WeightChanges(Watching):
    """Distances that a step moves the weights; a copy of the watched weights exists during the step."""

    def __init__(self, gating: Gating, replicas: Replicas, method: Method) -> None:
        super().__init__(gating, replicas, method)
        self._past: dict[str, Tensor] = {}

    def before_step(self, step: OptimizerStep) -> None:
        """Copy the watched weights that the optimizer is to step."""
        self._past |= {name: parameter.detach().clone() for name, parameter in self._own(step)}

    def after_step(self, step: OptimizerStep) -> None:
        """Measure how far they have moved."""
        for name, parameter in self._own(step):
            self._note(name, parameter.detach() - self._past.pop(name))

    def cancel_step(self) -> None:
        """Drop the copies."""
        self._past = {}


_KINDS: dict[Watched, type[Watching]] = {"norm": GradientNorms, "change": GradientChanges, "weights": WeightChanges}


def watching(gating: Gating, replicas: Replicas, method: Method) -> Watching | None:
    """Return the effect that measures for a method that watches something; None for another method."""
    kind = method.traits.watches
    return None if kind is None else _KINDS[kind](gating, replicas, method)


def watched_groups(method: Method, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[str, ...]:
    """Return the groups that a method asks to watch in the next step."""
    requests = method.requests(clock, layers, memory)
    return tuple(name for request in requests if isinstance(request, WatchRequest) for name in request.groups)


def _unscaled(parameter: Parameter, step: OptimizerStep) -> Tensor:
    """Return the gradient without a gradient scaler's factor, which a fused optimizer divides out by itself."""
    gradient, scale = parameter.grad, getattr(step.optimizer, "grad_scale", None)
    assert gradient is not None
    return gradient.detach() if scale is None else gradient.detach() / scale.to(gradient.device)
