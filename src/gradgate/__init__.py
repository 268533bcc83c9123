"""gradgate decides which weights of a pretrained transformer learn, and when, and measures which decision was best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradgate import gates
from gradgate.activation_cache import ActivationCache
from gradgate.clock import Clock
from gradgate.errors import GradgateError
from gradgate.layers import Group, LayerMap, map_layers
from gradgate.methods import (
    FUN,
    LISA,
    LPFT,
    AnnealGradDrop,
    AnnealLayerGradDrop,
    BitFit,
    ChildTuning,
    Closing,
    Combined,
    Freeze,
    Full,
    Gate,
    GivenOrder,
    GradDrop,
    GradDropEpoch,
    GradDropEpochToggle,
    GradFreeze,
    Gradual,
    Head,
    LayerGradDrop,
    LayerwiseRates,
    Memory,
    Method,
    MethodInfo,
    Mixout,
    Modifier,
    NamedGroups,
    Plan,
    RandomOrder,
    RateMethod,
    method,
    methods,
    register,
)
from gradgate.tuner import Tuner

if TYPE_CHECKING:
    from gradgate import adapters
    from gradgate.training.gate_callback import GateCallback

__version__ = "0.1.0"

__all__ = [
    "FUN",
    "LISA",
    "LPFT",
    "ActivationCache",
    "AnnealGradDrop",
    "AnnealLayerGradDrop",
    "BitFit",
    "ChildTuning",
    "Clock",
    "Closing",
    "Combined",
    "Freeze",
    "Full",
    "Gate",
    "GateCallback",
    "GivenOrder",
    "GradDrop",
    "GradDropEpoch",
    "GradDropEpochToggle",
    "GradFreeze",
    "GradgateError",
    "Gradual",
    "Group",
    "Head",
    "LayerGradDrop",
    "LayerMap",
    "LayerwiseRates",
    "Memory",
    "Method",
    "MethodInfo",
    "Mixout",
    "Modifier",
    "NamedGroups",
    "Plan",
    "RandomOrder",
    "RateMethod",
    "Tuner",
    "adapters",
    "gates",
    "map_layers",
    "method",
    "methods",
    "register",
]


def __getattr__(name: str) -> Any:
    # Trainer's module takes seconds to import; a bare training loop does not need it.
    if name == "GateCallback":
        from gradgate.training.gate_callback import GateCallback

        return GateCallback
    if name == "adapters":
        from importlib import import_module  # not `from gradgate import`, which would ask here again

        return import_module("gradgate.adapters")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
