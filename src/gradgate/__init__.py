"""gradgate decides which weights of a pretrained transformer learn, and when, and measures which decision was best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.clock import Clock
from gradgate.errors import GradgateError
from gradgate.layers.map import LayerMap
from gradgate.layers.units import Group
from gradgate.lazy import lazy_names
from gradgate.methods import (
    FUN,
    LISA,
    LPFT,
    AnnealGradDrop,
    AnnealLayerGradDrop,
    BitFit,
    ByUnit,
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

if TYPE_CHECKING:
    from gradgate import adapters, deltas, gates
    from gradgate import lightning as lightning
    from gradgate.activation_cache import ActivationCache
    from gradgate.layers import Selection, map_layers, select
    from gradgate.training.gate_callback import GateCallback
    from gradgate.training.new_tokens import new_token_rows
    from gradgate.tuner import Tuner

__version__ = "0.1.0"

__all__ = [
    "FUN",
    "LISA",
    "LPFT",
    "ActivationCache",
    "AnnealGradDrop",
    "AnnealLayerGradDrop",
    "BitFit",
    "ByUnit",
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
    "Selection",
    "Tuner",
    "adapters",
    "deltas",
    "gates",
    "map_layers",
    "method",
    "methods",
    "new_token_rows",
    "register",
    "select",
]

# torch takes seconds to import, and so does Trainer: each is imported with the first name that needs it.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ActivationCache": "gradgate.activation_cache",
        "GateCallback": "gradgate.training.gate_callback",
        "Tuner": "gradgate.tuner",
        "adapters": "gradgate.adapters",
        "deltas": "gradgate.deltas",
        "gates": "gradgate.gates",
        "lightning": "gradgate.lightning",  # not in __all__: it needs an extra
        "Selection": "gradgate.layers",
        "map_layers": "gradgate.layers",
        "new_token_rows": "gradgate.training.new_tokens",
        "select": "gradgate.layers",
    },
)
