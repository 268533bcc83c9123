"""Find the matrices of a model that are stored in 4 or 8 bits and cannot learn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

# Types of 8 bits and less that count as floating point.
_SHORT = {getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2") if hasattr(torch, name)}
_LIBRARIES = ("bitsandbytes", "torchao")


def quantized_parameters(parameters: Mapping[str, nn.Parameter]) -> frozenset[str]:
    """Return the names of the parameters that are stored in 4 or 8 bits.

    These are those of bitsandbytes and torchao, and all that are integers or floats of 8 bits or fewer. Formats that
    keep their numbers in buffers, such as GPTQ and AWQ, have no such parameters.
    """
    return frozenset(name for name, parameter in parameters.items() if _is_quantized(parameter))


def _is_quantized(parameter: nn.Parameter) -> bool:
    library = next((kind.__module__.split(".")[0] for kind in type(parameter).__mro__), "")
    in_bits = not parameter.is_floating_point() and not parameter.is_complex()
    return library in _LIBRARIES or in_bits or parameter.dtype in _SHORT
