"""Run a model without leaving a trace: its flags, its buffers and every random state are restored afterwards."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


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

    Gradient checkpointing is off in the body: it would run modules again after the body has ended.

    Args:
        model: what the body runs. Parameters and their ``.grad`` are not restored: the body must not change them.
        training: the mode that every module runs in; None leaves each as it is.
        gradients: whether autograd records the body.
        seed: where the random states begin, so that what the body draws does not depend on the training around it;
            None lets them go on from where they are.
        writers: the modules of which the body may change buffers; None for all of them.
    """
    modes = {module: module.training for module in model.modules()}
    checkpointing: list[Any] = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False) is True]
    buffers = _Buffers(model.modules() if writers is None else writers)
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(gradients):
        try:
            if seed is not None:
                _seed(seed, devices)
            for module in modes if training is not None else ():
                # Not model.train(): some models override it with effects of their own, such as merging weights.
                module.training = bool(training)
            for module in checkpointing:
                module.gradient_checkpointing = False
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
            for module, mode in modes.items():
                module.training = mode
            for module in checkpointing:
                module.gradient_checkpointing = True
            with torch.no_grad():
                buffers.restore()


class _Buffers:
    """The buffers of some modules and their values."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._held = {module: dict(module._buffers) for module in modules}
        of_all = [buffer for held in self._held.values() for buffer in held.values()]
        self._values = {id(b): b.clone() for b in of_all if b is not None and not b.is_meta}

    def restore(self) -> None:
        """Put back which buffers there are; write to those that have changed, and to no other."""
        for module, held in self._held.items():
            for name in module._buffers.keys() - held.keys():
                del module._buffers[name]
            for name, buffer in held.items():
                module._buffers[name] = buffer
                values = self._values.get(id(buffer))
                if buffer is not None and values is not None and not torch.equal(buffer, values):
                    buffer.copy_(values)


def functional_tensors(model: nn.Module, trained: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The arguments of :func:`torch.func.functional_call` for a forward pass that is separate from the training.

    Args:
        model: what will be called.
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
    """Seed the generators that are restored, and no other: ``torch.manual_seed`` would seed every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    for device in devices:
        torch.cuda.default_generators[device].manual_seed(seed)
