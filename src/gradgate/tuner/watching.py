"""Measure what a method watches in ordinary steps: gradients, their changes, and how far weights move."""

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
    """Measures the watched groups in each step, without extra passes.

    Args:
        gating: has the model's parameters.
        replicas: the processes; all get the same sizes.
        method: makes the requests.

    Raises:
        AttachError: if what it asks for cannot be watched in shards.
    """

    def __init__(self, gating: Gating, replicas: Replicas, method: Method) -> None:
        self._gating, self._replicas = gating, replicas
        self._group_of: dict[str, str] = {}
        self._sizes: dict[str, Tensor] = {}

    def on_plan(self, coming: ComingStep) -> None:
        """Watch the groups that the plan's step asks for."""
        members = {name: group for group in coming.watched for name in self._gating.groups[group]}
        self._group_of = {name: group for name, group in members.items() if name in coming.opened}
        self._sizes = {}

    def sizes(self) -> dict[str, float]:
        """Return the size of each watched group in the last step, if it has one; the same in all processes."""
        if not self._group_of:
            return {}
        sizes: dict[str, float] = {}
        values = torch.stack([size.to("cpu") for size in self._sizes.values()]).tolist() if self._sizes else []
        for name, value in zip(self._sizes, values, strict=True):
            sizes[self._group_of[name]] = sizes.get(self._group_of[name], 0.0) + value
        return self._replicas.mean(sizes)

    def _own(self, step: OptimizerStep) -> Iterator[tuple[str, Parameter]]:
        """Yield the watched parameters that an optimizer is about to step."""
        for name in self._group_of:
            parameter = self._gating.parameters[name]
            if parameter.grad is not None and step.holds(parameter):
                yield name, parameter

    def _note(self, name: str, tensor: Tensor) -> None:
        self._sizes[name] = whole(tensor.abs().sum(dtype=torch.float32))


class GradientNorms(Watching):
    """Measures sizes of gradients."""

    def before_step(self, step: OptimizerStep) -> None:
        """Measure the gradients that the optimizer gets."""
        for name, parameter in self._own(step):
            self._note(name, _unscaled(parameter, step))


class GradientChanges(Watching):
    """Measures differences between the gradients of consecutive steps; stores those of the last step."""

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
        """Watch the groups that the plan's step asks for, and drop the gradients of others."""
        super().on_plan(coming)
        self._past = {name: past for name, past in self._past.items() if name in self._group_of}

    def before_step(self, step: OptimizerStep) -> None:
        """Measure the gradients that the optimizer gets, and store them."""
        for name, parameter in self._own(step):
            gradient = _unscaled(parameter, step)
            if name in self._past:
                self._note(name, gradient - self._past[name])
                self._past[name].copy_(gradient)
            else:
                self._past[name] = gradient.clone()

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the gradients of the last step."""
        return {name: past.clone() for name, past in self._past.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the gradients of the last step.

        Raises:
            RunError: if they belong to other parameters.
        """
        for name, tensor in tensors.items():
            parameter = self._gating.parameters.get(name)
            if parameter is None or parameter.shape != tensor.shape:
                raise RunError(
                    f"The saved gradient of {name} has shape {tuple(tensor.shape)}; expected "
                    f"{'no such parameter' if parameter is None else tuple(parameter.shape)}. Load the model that the "
                    f"state was saved with."
                )
        devices = {name: self._gating.parameters[name].device for name in tensors}
        self._past = {name: tensor.to(devices[name], copy=True) for name, tensor in tensors.items()}


class WeightChanges(Watching):
    """Measures how far a step moves the weights; stores a copy of what is watched during the step."""

    def __init__(self, gating: Gating, replicas: Replicas, method: Method) -> None:
        super().__init__(gating, replicas, method)
        self._past: dict[str, Tensor] = {}

    def before_step(self, step: OptimizerStep) -> None:
        """Copy what the optimizer is about to step."""
        self._past |= {name: parameter.detach().clone() for name, parameter in self._own(step)}

    def after_step(self, step: OptimizerStep) -> None:
        """Measure how far the weights have moved."""
        for name, parameter in self._own(step):
            self._note(name, parameter.detach() - self._past.pop(name))

    def cancel_step(self) -> None:
        """Drop the copies."""
        self._past = {}


_KINDS: dict[Watched, type[Watching]] = {"norm": GradientNorms, "change": GradientChanges, "weights": WeightChanges}


def watching(gating: Gating, replicas: Replicas, method: Method) -> Watching | None:
    """Return the effect that measures what a method watches; None if it watches nothing."""
    kind = method.traits.watches
    return None if kind is None else _KINDS[kind](gating, replicas, method)


def watched_groups(method: Method, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[str, ...]:
    """Return the groups that a method asks to watch in the next step."""
    requests = method.requests(clock, layers, memory)
    return tuple(name for request in requests if isinstance(request, WatchRequest) for name in request.groups)


def _unscaled(parameter: Parameter, step: OptimizerStep) -> Tensor:
    """Return the gradient without the factor of a gradient scaler, which a fused optimizer removes by itself."""
    gradient, scale = parameter.grad, getattr(step.optimizer, "grad_scale", None)
    assert gradient is not None
    return gradient.detach() if scale is None else gradient.detach() / scale.to(gradient.device)
