"""Shard a run's model over its processes with FSDP2; store full weights, and the optimizer's shards."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from gradgate.distributed import launch
from gradgate.distributed.environment import check_environment
from gradgate.distributed.shards import local
from gradgate.errors import RunError, UsageError
from gradgate.layers import LayerMap
from gradgate.replacing import replaced
from gradgate.settings.run import RunConfig
from gradgate.tuner.optimizer_states import Float32States


def check_launch(config: RunConfig) -> None:
    """Raise UsageError for launches that would ignore or contradict the configuration.

    Raises:
        UsageError: for an environment that contradicts it, or ``fsdp`` with one process, Adafactor or fp16.
    """
    check_environment(config.pass_precision, config.accumulate)
    if config.fsdp and launch.count() == 1:
        raise UsageError("fsdp=True shards a model over several processes, and one was started. Use torchrun for more.")
    if config.fsdp and config.optim == "adafactor":
        raise UsageError(
            "fsdp=True and optim='adafactor' cannot be combined: Adafactor cannot step parts of a weight. Use "
            "adamw_torch."
        )
    if config.fsdp and config.precision == "fp16":
        raise UsageError("fsdp=True and precision='fp16' cannot be combined: use bf16 or fp32.")


def shard(model: nn.Module, layers: LayerMap, device: torch.device) -> None:
    """Give each process its rows of every parameter; a layer is gathered on its own when it runs.

    Raises:
        RunError: if the model ties parameters, which FSDP2 would untie.
    """
    if layers.ties:
        raise RunError(f"fsdp=True does not keep the tied weights {' = '.join(layers.ties[0])} equal. Leave it out.")
    model.to(device)
    stacks: list[Any] = [model.get_submodule(path) for path in dict.fromkeys(group.stack for group in layers) if path]
    # Layers before the model: the outer call takes only the parameters that no inner module has sharded yet.
    for layer in chain.from_iterable(stacks):
        if not isinstance(layer, FSDPModule) and any(True for _ in layer.parameters()):
            fully_shard(layer)
    fully_shard(model)


def is_sharded(model: nn.Module) -> bool:
    """Return True if :func:`shard` was called on a model."""
    return isinstance(model, FSDPModule)


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Gather a sharded model's state on the CPU of the first process; the others return an empty dict."""
    weights = {}
    for name, tensor in model.state_dict().items():
        # A collective, so all processes call it. Tensor by tensor, so that no device needs room for the full model.
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if launch.is_first():
            weights[name] = full.detach().cpu().contiguous()
    return weights


def save_whole(model: nn.Module, file: Path) -> None:
    """Write the full weights in the first process; every process must call this."""
    weights = whole_weights(model)
    if launch.is_first():
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced(file) as part:
            save_file(weights, part)


def load_whole(model: nn.Module, file: Path) -> None:
    """Load full weights from a file into a sharded model; each process copies its own part."""
    weights = load_file(file)
    for name, tensor in model.state_dict().items():
        part, offset = local(tensor)
        with torch.no_grad():
            part.copy_(weights[name].flatten()[offset : offset + part.numel()].view(part.shape))


def save_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Write this process's part of the optimizer's state."""
    state = optimizer.state_dict()
    parts = {number: {key: _part(value) for key, value in values.items()} for number, values in state["state"].items()}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({**state, "state": parts}, _optimizer_file(folder))


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Load this process's part of the optimizer's state."""
    state = torch.load(_optimizer_file(folder), map_location="cpu", weights_only=True)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state["state"] = {
        number: {key: _rejoined(value, parameters[number]) for key, value in values.items()}
        for number, values in state["state"].items()
    }
    with Float32States([optimizer]):  # load_state_dict would cast float32 states to the weights' 16 bits
        optimizer.load_state_dict(state)


def _part(value: Any) -> Any:
    return local(value)[0].clone() if isinstance(value, DTensor) else value


def _rejoined(value: Any, parameter: Tensor) -> Any:
    """Turn the stored part of a parameter's state back into a shard; return scalars and plain tensors as they are."""
    if not isinstance(value, Tensor) or value.dim() == 0 or not isinstance(parameter, DTensor):
        return value
    return DTensor.from_local(
        value.to(local(parameter)[0].device),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _optimizer_file(folder: Path) -> Path:
    return folder / f"optimizer_{os.environ.get('RANK', '0')}.pt"
