"""Run a model and leave it, and every global random state, as they were."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradgate.layers.names import canonical_name


def stand_ins(model: nn.Module, wanted: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What to call the model with instead of its own tensors, under the names that the model has for them.

    Returns:
        Aliases of the wanted parameters, which require a gradient, and all other tensors: aliases of parameters,
        and copies of the buffers, which a forward pass may overwrite. Aliases share memory with the parameters,
        but neither their flags nor their ``.grad`` or hooks.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    chosen = {name: alias.requires_grad_() for name, alias in parameters.items() if canonical_name(name) in wanted}
    rest = {name: alias for name, alias in parameters.items() if name not in chosen}
    return chosen, rest | {name: buffer.clone() for name, buffer in model.named_buffers()}


@contextmanager
def undisturbed(model: nn.Module, *, eval_mode: bool, seed: int) -> Iterator[None]:
    """Run the body with dropout off or on; put back flags and random states of Python, NumPy and torch afterwards.

    The random states begin at ``seed``, so that what the body draws does not depend on the training around it.
    Gradient checkpointing is off: it would call the modules again when their stand-ins are gone.
    """
    training = {module: module.training for module in model.modules()}
    checkpointing: list[Any] = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False) is True]
    devices = {parameter.device.index for parameter in model.parameters() if parameter.device.type == "cuda"}
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=list(devices)), torch.enable_grad():
            _seed(seed, devices)
            model.train(not eval_mode)
            for module in checkpointing:
                module.gradient_checkpointing = False
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for module, flag in training.items():
            module.training = flag
        for module in checkpointing:
            module.gradient_checkpointing = True


def _seed(seed: int, devices: Collection[int]) -> None:
    """Seed what is put back, and nothing else: ``torch.manual_seed`` would seed every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    for device in devices:
        torch.cuda.default_generators[device].manual_seed(seed)
