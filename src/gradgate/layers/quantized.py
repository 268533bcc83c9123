"""Find what of a model is stored in 4 or 8 bits, by which method, and how many weights that are."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import nn

# Types of 8 bits and less that count as floating point.
_SHORT = {getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2") if hasattr(torch, name)}
_LIBRARIES = ("bitsandbytes", "torchao")
_REPACKS = "support_avx512bf16_for_cpu"


def quantization_of(model: nn.Module) -> str | None:
    """Return the name of the method that a model in memory is quantized with; None if it is not."""
    config = getattr(getattr(model, "config", None), "quantization_config", None)
    if config is not None:
        return quantization_method(config if isinstance(config, dict) else vars(config))
    kinds = {type(parameter).__name__ for parameter in model.parameters()} & {"Params4bit", "Int8Params"}
    return f"bitsandbytes {min(kinds)}" if kinds else None


def keep_one_kernel(model: nn.Module) -> None:
    """Let bitsandbytes' 4-bit matrices compute in one way on a CPU, in training and in evaluation.

    On a CPU with AVX-512 for bfloat16, version 0.50 repacks a matrix in the first forward pass in evaluation mode: from
    then on it computes in bfloat16, in training too, and the unpacking in its ``state_dict`` returns other weights.
    """
    for module in model.modules():
        if hasattr(module, _REPACKS):
            setattr(module, _REPACKS, False)


def quantization_method(config: Mapping[str, Any]) -> str:
    """Return the name of the method in a ``quantization_config`` of transformers."""
    method = config.get("quant_method", "an unknown method")
    return str(getattr(method, "value", method))


def weight_shape(parameter: nn.Parameter) -> tuple[int, ...]:
    """Return the shape of a parameter as it was before bitsandbytes packed two weights into a byte, if it did."""
    return tuple(getattr(getattr(parameter, "quant_state", None), "shape", None) or parameter.shape)


def weight_count(parameter: nn.Parameter) -> int:
    """Count the weights of a parameter, which are two in each element of bitsandbytes' 4 bits."""
    return prod(weight_shape(parameter))


def quantized_parameters(parameters: Mapping[str, nn.Parameter]) -> frozenset[str]:
    """Return the names of the parameters that are stored in 4 or 8 bits.

    These are those of bitsandbytes and torchao, and all that are integers or floats of 8 bits or fewer. Formats that
    keep their numbers in buffers, such as GPTQ and AWQ, have no such parameters.
    """
    return frozenset(name for name, parameter in parameters.items() if _is_quantized(parameter))


def _is_quantized(parameter: nn.Parameter) -> bool:
    library = type(parameter).__module__.partition(".")[0]
    in_bits = not parameter.is_floating_point() and not parameter.is_complex()
    return library in _LIBRARIES or in_bits or parameter.dtype in _SHORT
