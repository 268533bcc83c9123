"""Write and read the weights of a checkpoint, under their names in memory."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import Tensor, nn

from gradgate.errors import RunError
from gradgate.layers.quantized import quantization_of, quantized_parameters
from gradgate.replacing import replaced


def write_weights(model: nn.Module, file: Path) -> None:
    """Write a model's weights under their names in memory; of a quantized one, all that is not quantized.

    What is quantized never changes.
    """
    with replaced(file) as part:
        if quantization_of(model) is None:
            save_model(model, str(part))
        else:
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _plain(model).items()}
            save_file(tensors, str(part), {"format": "pt"})


def read_weights(model: nn.Module, file: Path) -> None:
    """Load what :func:`write_weights` wrote into the model.

    Raises:
        RunError: if a file of a quantized model has other tensors.
    """
    if quantization_of(model) is None:
        load_model(model, file)
        return
    tensors, own = load_file(file), _plain(model)
    if tensors.keys() != own.keys():
        odd = sorted(tensors.keys() ^ own.keys())
        raise RunError(f"{file} belongs to another model: it and the run differ in {odd[0]}. Train with another out=.")
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def _plain(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters that are not quantized, and the buffers that a state has, without those of quantization."""
    parameters = dict(model.named_parameters())
    quantized = quantized_parameters(parameters)
    plain: dict[str, Tensor] = {name: value for name, value in parameters.items() if name not in quantized}
    holders = {name.rpartition(".")[0] for name in quantized}
    for path, module in model.named_modules():
        kept = {} if path in holders else dict(module.named_buffers(path, recurse=False))
        plain |= {n: b for n, b in kept.items() if n.rpartition(".")[2] not in module._non_persistent_buffers_set}
    return plain
