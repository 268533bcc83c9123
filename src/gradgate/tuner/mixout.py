"""Run mixout: forward passes in which weights are mixed with their initial values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from gradgate import gates
from gradgate.errors import AttachError, RunError
from gradgate.layers import named_parameters
from gradgate.methods.traits import MixoutSettings
from gradgate.model_copies import noted
from gradgate.tuner.effect import ComingStep, Effect

_STREAM = "mixout"


class Mixing(Effect):
    """Mixes the weights of a model's linear layers in training mode.

    In a forward pass, a layer uses ``W0 + (W - W0) * m / (1 - p)`` in place of a weight that learns, where ``m`` is 0
    with probability ``p`` and else 1: the formula of mixout, rearranged. The parameter itself does not change, and
    autograd differentiates through the mixture. The masks are functions of the seed, the name and :attr:`step`,
    so that micro-batches of one step, recomputation and resumed trainings see the same.

    Attributes:
        step: optimizer steps done.
        initial: canonical name to ``W0``: a copy of each weight that is mixed, made by :meth:`attach`.

    Raises:
        AttachError: for a compiled model, or weights that are sharded.
    """

    on_model: ClassVar[bool] = True
    state_name: ClassVar[str] = "initial"

    def __init__(self, model: nn.Module, mix: MixoutSettings, names: Collection[str], seed: int) -> None:
        if hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None:
            compiled = type(getattr(model, "_orig_mod", model)).__name__
            raise AttachError(
                "A compiled model bakes its weights in, so mixout cannot mix them. Do not compile. "
                f"Found a compiled {compiled}; expected one that torch.compile has not seen."
            )
        self.step = 0
        self.initial: dict[str, Tensor] = {}
        self._mix = mix
        self._seed = seed
        wanted = {id(p): name for name, p in named_parameters(model).items() if name in names}
        linear: list[Any] = [module for module in model.modules() if _is_linear(module)]
        self._layers = [(layer, wanted[id(layer.weight)]) for layer in linear if id(layer.weight) in wanted]
        sharded = [name for layer, name in self._layers if isinstance(layer.weight, DTensor)]
        if sharded:
            raise AttachError(
                "mixout cannot mix weights that are sharded over processes. Use DDP instead of FSDP. "
                f"Found {len(sharded)} sharded weights, such as {sharded[0]}; expected whole ones."
            )
        self._hooks: list[Any] = []

    @property
    def names(self) -> list[str]:
        """Canonical names of the weights that are mixed."""
        return [name for _, name in self._layers]

    def attach(self) -> None:
        """Copy the current weights, and mix them from now on."""
        self.initial = {name: layer.weight.detach().clone() for layer, name in self._layers}
        for layer, name in self._layers:
            self._hooks.append(noted(layer.register_forward_pre_hook(self._entering(name))))
            self._hooks.append(noted(layer.register_forward_hook(_leave, always_call=True)))

    def on_plan(self, coming: ComingStep) -> None:
        """Draw the masks of the coming step."""
        self.step = coming.done

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the initial weights."""
        return self.initial

    def load_tensors(self, initial: Mapping[str, Tensor]) -> None:
        """Load the initial weights of an earlier training.

        Raises:
            RunError: if they belong to other weights.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in initial.items()}
        mine = {name: tuple(tensor.shape) for name, tensor in self.initial.items()}
        differing = [name for name in (*shapes, *mine) if shapes.get(name) != mine.get(name)]
        if differing:
            raise RunError(
                "The saved initial weights of mixout are not those of this model's linear layers. Load the model "
                f"that the state was saved with. The first that differs is {differing[0]}."
            )
        for name, tensor in initial.items():
            self.initial[name].copy_(tensor)

    def release(self) -> None:
        """Remove every hook."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _entering(self, name: str) -> Any:
        def enter(layer: nn.Module, inputs: Any) -> None:
            weight: Any = layer.weight
            if not layer.training or not weight.requires_grad:
                return
            if self.initial[name].device != weight.device:
                self.initial[name] = self.initial[name].to(weight.device)
            # An instance attribute hides the parameter, which stays registered for optimizers and state_dict().
            vars(layer)["weight"] = self._mixed(weight, name, axis=1 if isinstance(layer, nn.Linear) else 0)

        return enter

    def _mixed(self, weight: Tensor, name: str, axis: int) -> Tensor:
        key = gates.key(seed=self._seed, stream=_STREAM, name=name, draw=self.step)
        initial = self.initial[name]
        return initial + _drop(weight - initial, self._mix.p, axis if self._mix.unit == "neuron" else None, key)


class _Drop(torch.autograd.Function):
    """Zeroes elements, or all outgoing weights of a neuron, with probability p, and divides the rest by 1 - p.

    Linear, so that its derivative is itself; the mask is computed again, not stored, for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, p: float, axis: int | None, key: int) -> Tensor:
        ctx.settings = (p, axis, key)
        if axis is None:
            return gates.apply_(tensor.clone(), lo=p, hi=1.0, scale=1.0 / (1.0 - p), key=key)
        neurons = tensor.new_ones(tensor.shape[axis])
        gates.apply_(neurons, lo=p, hi=1.0, scale=1.0 / (1.0 - p), key=key)
        return tensor * (neurons if axis == 1 else neurons.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _drop(gradients[0], *ctx.settings), None, None, None


def _drop(tensor: Tensor, p: float, axis: int | None, key: int) -> Tensor:
    apply: Any = _Drop.apply  # untyped in torch
    dropped: Tensor = apply(tensor, p, axis, key)
    return dropped


def _is_linear(module: nn.Module) -> bool:
    """Return True for a linear layer that is called; GPT-2's Conv1D is one with its weight transposed."""
    if isinstance(module, NonDynamicallyQuantizableLinear):  # nn.MultiheadAttention reads its weight, past every hook
        return False
    return isinstance(module, nn.Linear) or (type(module).__name__ == "Conv1D" and hasattr(module, "nf"))


def _leave(layer: nn.Module, inputs: Any, output: Any) -> None:
    vars(layer).pop("weight", None)
