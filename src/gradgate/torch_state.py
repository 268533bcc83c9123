"""Run a model without leaving a trace: its flags, its buffers and every random state are restored afterwards."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

RESCALES = "_rescale_layers"
"""The method of a model that changes its weights by its training flag."""


@contextmanager
def preserved_state(
    model: nn.Module,
    *,
    training: bool | None = None,
    gradients: bool = False,
    seed: int | None = None,
    writers: Iterable[nn.Module] | None = None,
) -> Iterator[None]:
    """Run the body, then restore training flags, buffers and the random states of Python, NumPy and torch.

    What models of transformers change in themselves as they run is restored too.

    Gradient checkpointing is off in the body: it would run modules again after the body has ended.

    Args:
        model: the model that the body runs. Parameters and their ``.grad`` are not restored, so the body must not
            change them.
        training: the mode of every module; None leaves each as it is.
        gradients: True if autograd records the body.
        seed: seed of the random states, so that the body's draws do not depend on the training around it; None
            continues from the current states.
        writers: the modules whose buffers the body may change; None for all of them.
    """
    before = _Snapshot(model, model.modules() if writers is None else writers)
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(gradients):
        try:
            if seed is not None:
                _seed(seed, devices)
            for module in before.modes if training is not None else ():
                # Not model.train(): some models override it with effects of their own, such as merging weights.
                module.training = bool(training)
            for module in before.checkpointing:
                module.gradient_checkpointing = False
            yield
        finally:
            before.restore()


class _Snapshot:
    """The flags of a model, the buffers of some of its modules, and the random states of Python and NumPy."""

    def __init__(self, model: nn.Module, writers: Iterable[nn.Module]) -> None:
        self.modes = {module: module.training for module in model.modules()}
        checkpointing: list[Any] = [m for m in self.modes if getattr(m, "gradient_checkpointing", False) is True]
        self.checkpointing = checkpointing
        self._buffers = {module: dict(module._buffers) for module in writers}
        of_all = [buffer for buffers in self._buffers.values() for buffer in buffers.values()]
        self._values = {id(b): b.clone() for b in of_all if b is not None and not b.is_meta}
        # BigBird replaces its sparse attention for good if an input is short.
        self._attention: list[tuple[Any, str, dict[str, Any]]] = [
            (module, module.attention_type, dict(module._modules))
            for module in self.modes
            if hasattr(module, "set_attention_type") and isinstance(module.attention_type, str)
        ]
        # RWKV divides weights by powers of 2 for inference, and multiplies them again for training.
        self._rescaled: list[tuple[Any, bool]] = [
            (module, bool(module.layers_are_rescaled)) for module in self.modes if hasattr(module, RESCALES)
        ]
        self._python, self._numpy = random.getstate(), np.random.get_state()

    def restore(self) -> None:
        """Restore everything; write to buffers only if they have changed."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        for module, kind, children in self._attention:
            module.attention_type = kind
            module._modules.update(children)
        for module, was in self._rescaled:
            if module.layers_are_rescaled != was:
                module.training = not was
                getattr(module, RESCALES)()
        for module, mode in self.modes.items():
            module.training = mode
        for module in self.checkpointing:
            module.gradient_checkpointing = True
        with torch.no_grad():
            for module, buffers in self._buffers.items():
                self._restore_buffers(module, buffers)

    def _restore_buffers(self, module: nn.Module, buffers: dict[str, Tensor | None]) -> None:
        for name in module._buffers.keys() - buffers.keys():
            del module._buffers[name]
        for name, buffer in buffers.items():
            module._buffers[name] = buffer
            values = self._values.get(id(buffer))
            if buffer is not None and values is not None and not torch.equal(buffer, values):
                buffer.copy_(values)


def move(model: nn.Module, device: torch.device) -> None:
    """Move a model to a device unless it is there, as a quantized one, which cannot be moved, may be."""
    if next(model.parameters()).device != device:
        model.to(device)


def functional_tensors(model: nn.Module, trained: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return arguments of :func:`torch.func.functional_call` for a forward pass that is separate from the training.

    Args:
        model: the model that will be called.
        trained: the model's own names of the parameters that require a gradient.

    Returns:
        Detached aliases of these parameters, which require a gradient, and all other tensors: detached parameters,
        and copies of the buffers, which a forward pass may overwrite. An alias shares the parameter's memory, but
        neither its flag nor its ``.grad`` or hooks.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    chosen = {name: alias.requires_grad_() for name, alias in parameters.items() if name in trained}
    rest = {name: alias for name, alias in parameters.items() if name not in chosen}
    return chosen, rest | {name: buffer.clone() for name, buffer in model.named_buffers()}


def _seed(seed: int, devices: Collection[int]) -> None:
    """Seed only the generators that are restored: ``torch.manual_seed`` would seed every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    for device in devices:
        torch.cuda.default_generators[device].manual_seed(seed)


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Use ``count`` CPU threads in the body; None leaves the number as it is."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
