"""Compute the sizes of a frozen model whose matrices would be stored in 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from gradgate.layers import LayerMap, canonical_name
from gradgate.settings.memory import Quantization

_BLOCK = 64  # elements that share one float32 scale in bitsandbytes' 4 bits, without its double quantization


@dataclass(frozen=True)
class QuantizedBase:
    """The matrices of a model that are stored in 4 or 8 bits; by default none.

    Attributes:
        bytes: name of each to its bytes with its scales.
        largest: bytes of the largest one in the type that it is computed in, which exist while it is multiplied.
    """

    bytes: Mapping[str, int] = field(default_factory=dict)
    largest: int = 0

    @classmethod
    def of(cls, model: nn.Module, layers: LayerMap, quantization: Quantization) -> QuantizedBase:
        """Freeze the matrices that bitsandbytes and torchao quantize, and return their sizes.

        These are the weights of linear layers inside the layers of the model, without adapters. ``nf4`` has a float32
        scale for each 64 elements, as bitsandbytes by default; its double quantization takes 0.37 bits less for each
        element. ``int8`` and ``fp8`` have a float32 scale for each row, as bitsandbytes' 8 bits and torchao's
        weight-only configurations.
        """
        inside = {name for group in layers.layers for name in group.parameter_names}
        sizes, largest = {}, 0
        for path, module in model.named_modules():
            name = f"{canonical_name(path)}.weight"
            if type(module) is nn.Linear and name in inside and layers.weights[name].part != "adapter":
                module.weight.requires_grad_(False)
                sizes[name] = _bytes(module, quantization)
                largest = max(largest, module.weight.nbytes)
        return cls(sizes, largest)


def _bytes(matrix: nn.Linear, quantization: Quantization) -> int:
    elements = matrix.weight.numel()
    if quantization == "nf4":
        return -(-elements // 2) + 4 * -(-elements // _BLOCK)
    return elements + 4 * matrix.out_features
