"""Check that the tensors of a model in memory are those of a checkpoint, each in one piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gradgate.deltas.model_files import CONFIG_FILE
from gradgate.deltas.weights import Weights
from gradgate.errors import DeltaError, RunError
from gradgate.files import read_json
from gradgate.layers.quantized import quantization_method, quantization_of


def check_in_memory(model: nn.Module) -> None:
    """Raise DeltaError if a model is sharded, quantized, adapted, or not in memory."""
    check_no_adapter(model)
    method = quantization_of(model)
    if method is not None:
        raise DeltaError(
            f"This {type(model).__name__} is quantized ({method}), so its weights are not those of the base that the "
            f"task was trained from. Load the base without quantization."
        )
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor):
            _check_tensor(name, tensor)


def _check_tensor(name: str, tensor: Tensor) -> None:
    if type(tensor).__name__ in ("DTensor", "ShardedTensor") or hasattr(tensor, "device_mesh"):
        raise DeltaError(
            f"{name} is sharded over several devices, but the elements of a delta index unsharded tensors. "
            f"Create the bank before the model is sharded, or load each task with gradgate.deltas.apply."
        )
    if tensor.device.type == "meta":
        raise DeltaError(
            f"{name} is not in memory (device 'meta'), probably because accelerate keeps weights on disk. Load the "
            f"full model, "
            f"without offloading."
        )
    if type(tensor.data) is not Tensor:
        raise DeltaError(
            f"{name} is a {type(tensor.data).__name__}, so its elements cannot be written one by one. Expected plain "
            f"tensors: load the base without quantization."
        )
    if not tensor.is_contiguous():
        raise DeltaError(f"{name} is not contiguous in memory. Call .contiguous() on it before creating the bank.")


def check_no_adapter(model: Any) -> None:
    """Raise DeltaError if a model has an adapter of gradgate or of PEFT."""
    from gradgate.adapters.attach import attached

    layers = any(hasattr(module, "base_layer") for module in model.modules())
    if (hasattr(model, "base_model") and attached(model) is not None) or hasattr(model, "peft_config") or layers:
        raise DeltaError(
            f"This {type(model).__name__} has an adapter, which its library saves in a small file of its own: use "
            f"gradgate.adapters.save or PEFT's save_pretrained. Merge or remove the adapter for a delta of "
            f"the model."
        )


def quantization_on_disk(folder: Path) -> str | None:
    """Return the name of the method that a checkpoint is quantized with; None if it is not."""
    try:
        config = read_json(folder / CONFIG_FILE).get("quantization_config")
    except RunError:
        return None
    return quantization_method(config) if isinstance(config, dict) else None


def check_plain_weights(folder: Path, where: str) -> None:
    """Raise DeltaError if a checkpoint is quantized, for uses that compute with its weights."""
    method = quantization_on_disk(folder)
    if method is not None:
        raise DeltaError(
            f"{where} is quantized ({method}), and its weights are used as plain numbers here. Pass a model that is "
            f"not quantized; 'gradgate delta apply' works for both."
        )


def check_comparable(trained: Weights, base: Weights) -> None:
    """Raise DeltaError if only one of two checkpoints is quantized, or both with different methods."""
    found = {weights.where: quantization_on_disk(weights.folder) for weights in (trained, base)}
    if len(set(found.values())) > 1:
        each = " and ".join(f"{where} is {f'quantized ({how})' if how else 'not'}" for where, how in found.items())
        raise DeltaError(
            f"{each}, so they have no weights in common. Pass the base in the precision that the model was trained in."
        )
