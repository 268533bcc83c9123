"""What learns when: one file a family of methods, and the catalogue of all of them."""

from gradgate.methods.base import CLOSED, OPEN, ByUnit, Closing, Gate, Memory, Method, MixoutSettings, Modifier, Plan
from gradgate.methods.blocks import LISA
from gradgate.methods.catalog import MethodInfo, method, methods, register
from gradgate.methods.combined import Combined
from gradgate.methods.fixed import BitFit, Freeze, Full, Head, NamedGroups
from gradgate.methods.fun import FUN
from gradgate.methods.graddrop import (
    AnnealGradDrop,
    AnnealLayerGradDrop,
    GradDrop,
    GradDropEpoch,
    GradDropEpochToggle,
    LayerGradDrop,
)
from gradgate.methods.layerwise_lr import LayerwiseRates, RateMethod
from gradgate.methods.mixout import Mixout
from gradgate.methods.sparse import ChildTuning
from gradgate.methods.unfreezing import LPFT, GivenOrder, GradFreeze, Gradual, RandomOrder

__all__ = [
    "CLOSED",
    "FUN",
    "LISA",
    "LPFT",
    "OPEN",
    "AnnealGradDrop",
    "AnnealLayerGradDrop",
    "BitFit",
    "ByUnit",
    "ChildTuning",
    "Closing",
    "Combined",
    "Freeze",
    "Full",
    "Gate",
    "GivenOrder",
    "GradDrop",
    "GradDropEpoch",
    "GradDropEpochToggle",
    "GradFreeze",
    "Gradual",
    "Head",
    "LayerGradDrop",
    "LayerwiseRates",
    "Memory",
    "Method",
    "MethodInfo",
    "Mixout",
    "MixoutSettings",
    "Modifier",
    "NamedGroups",
    "Plan",
    "RandomOrder",
    "RateMethod",
    "method",
    "methods",
    "register",
]
