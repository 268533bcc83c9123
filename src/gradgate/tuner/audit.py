"""Check bit for bit that closed parameters do not change and open ones do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from gradgate.distributed.replicas import Replicas
from gradgate.distributed.shards import local
from gradgate.errors import AuditError
from gradgate.layers.quantized import quantized_parameters
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep
from gradgate.tuner.gating import Gating


def audited(wanted: bool | None) -> bool:
    """Return ``wanted``, or whether the environment variable ``GRADGATE_AUDIT`` is 1 if it is None."""
    return os.environ.get("GRADGATE_AUDIT") == "1" if wanted is None else wanted


def fingerprint(tensor: Tensor) -> str:
    """Hash the local bytes of a tensor: equal if and only if the values are bit-identical."""
    flat = local(tensor)[0].to("cpu").contiguous().view(-1).view(torch.uint8)
    return blake2b(flat.numpy().tobytes(), digest_size=16).hexdigest()


class TensorAudit(Effect):
    """Compares the tensors of a model: what the plan closes must not move, what it opens must.

    Closed parameters are compared bit for bit at each change of phase, after the first step of each phase and at the
    end; in between, ``requires_grad`` and the version counter of each are checked at every step. If several processes
    train copies of the model, the copies are compared at those three times as well. With several optimizers, the checks
    after a step run after each of them, for its own parameters. Matrices in 4 or 8 bits are not compared: no optimizer
    steps them, and bitsandbytes packs them again when they are first used.
    """

    def __init__(self, gating: Gating, replicas: Replicas) -> None:
        self._gating = gating
        self._parameters = gating.parameters
        self._left_out = gating.beside | quantized_parameters(gating.parameters)
        self._replicas = replicas
        self._closed: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._must_move: dict[str, str] = {}
        self._first_step = True

    def on_plan(self, coming: ComingStep) -> None:
        """Compare the closed parameters when a phase ends, and fingerprint those of the phase that begins."""
        if not coming.begins_phase:
            self._first_step = False
            return
        if coming.previous is not None:  # else the weights may have been loaded since the phase before began
            self._check_closed(coming.done)
        self._replicas.compare(fingerprint, coming.done)
        closed = set(self._parameters) - set(self._gating.names(lambda gate: not gate.closed)) - self._left_out
        self._closed = {name: fingerprint(self._parameters[name]) for name in closed}
        self._versions = {name: local(self._parameters[name])[0]._version for name in self._closed}
        self._first_step = True

    def before_step(self, step: OptimizerStep) -> None:
        """Check the flags; in the first step of a phase, note which open parameters must move."""
        for name in self._closed:
            if self._parameters[name].requires_grad:
                raise AuditError(
                    f"{name} is closed in step {step.number}, but something set its requires_grad to True behind "
                    f"the tuner's back. Only the tuner may open and close parameters while it is attached."
                )
        learning = self._gating.names(lambda gate: gate.share > 0.0)
        open_parameters = {name: self._parameters[name] for name in learning}
        for name, parameter in open_parameters.items():
            if not parameter.requires_grad:
                raise AuditError(
                    f"{name} is open in step {step.number}, but something set its requires_grad to False behind "
                    f"the tuner's back, so it would not learn."
                )
        if self._first_step:
            options = {id(p): group for group in step.optimizer.param_groups for p in group["params"]}
            # The few elements with the largest momentum may all be in another shard, or their updates may round to 0.
            some_move = set(self._gating.names(lambda gate: gate.share > 0.0 and not gate.momentum))
            self._must_move = {
                name: fingerprint(parameter)
                for name, parameter in open_parameters.items()
                if name in some_move
                and id(parameter) in options
                and _will_move(parameter, options[id(parameter)], step.optimizer)
            }

    def after_step(self, step: OptimizerStep) -> None:
        """Check that no closed parameter changed and, in the first step of a phase, that the open ones did."""
        self._check_versions(step.number)
        if not self._first_step:
            return
        self._replicas.compare(fingerprint, step.number)
        self._check_closed(step.number)
        for name, before in self._must_move.items():
            if fingerprint(self._parameters[name]) == before:
                raise AuditError(
                    f"{name} is open and had a gradient in step {step.number}, but did not move. Is it missing from "
                    f"the optimizer that was stepped, or is something putting it back? Add it to the optimizer, or "
                    f"leave it closed."
                )
        self._must_move = {}

    def finish(self, done: int) -> None:
        """Compare everything for the last time."""
        self._replicas.compare(fingerprint, done)
        self._check_closed(done)

    def _check_closed(self, step: int) -> None:
        """Compare every closed parameter with what it was when the phase began."""
        for name, before in self._closed.items():
            if fingerprint(self._parameters[name]) != before:
                raise AuditError(_moved(name, step))

    def _check_versions(self, step: int) -> None:
        for name, version in self._versions.items():
            seen = local(self._parameters[name])[0]._version
            if seen == version:
                continue
            if fingerprint(self._parameters[name]) != self._closed[name]:
                raise AuditError(_moved(name, step))
            self._versions[name] = seen


def _moved(name: str, step: int) -> str:
    return (
        f"{name} is closed, but it has changed since its phase began (seen after step {step}). "
        f"Something other than the gated optimizer wrote to it. Let the optimizer "
        f"alone change weights, or open it."
    )


def _will_move(parameter: Parameter, options: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> bool:
    """Return True if the update of at least one element must exceed that element's rounding error."""
    gradient, lr = parameter.grad, options.get("lr")
    if gradient is None or lr is None or gradient.is_sparse or gradient.shape != parameter.shape:
        return False
    values, size = local(parameter)[0], local(gradient)[0].abs().to(torch.float32)
    lr = float(lr) / max(1, options.get("warmup_steps", 1))  # schedule-free optimizers warm up by themselves
    if type(optimizer).__name__ == "Muon":
        # Singular values of the update are near 1 for a gradient of any size, so at least one element exceeds this.
        seen = bool(size.numel()) and float(size.norm()) > 1e-6
        update = torch.full_like(size, 0.5 * lr * parameter.numel() ** -0.5)
        return seen and _exceeds_rounding(values, update, every=True)
    # Adam's first step divides by the gradient's own size, its later ones by a past that may be much larger.
    # Later steps and all other rules are assumed to move no more than plain gradient descent.
    first_of_adam = isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)) and not optimizer.state.get(parameter)
    relative = size / (size + float(options["eps"])) if first_of_adam else size.clamp(max=1.0)
    return _exceeds_rounding(values, lr * relative)


def _exceeds_rounding(values: Tensor, updates: Tensor, *, every: bool = False) -> bool:
    """Return True if an update exceeds the rounding error of its value; with ``every``, if all of them do."""
    precision = torch.finfo(values.dtype)
    resolution = 4.0 * precision.eps * values.abs().to(torch.float32)
    larger = updates > resolution.clamp(min=max(precision.tiny, 1e-30))
    return bool(larger.all() if every else larger.any())
