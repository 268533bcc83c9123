"""What learns when: one file a family of methods, and the catalogue of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.lazy import lazy_names
from gradgate.methods.base import ByUnit, Closing, Memory, Method, MixoutSettings, Modifier
from gradgate.methods.catalog import OWN_METHODS, MethodInfo, method, methods, register
from gradgate.methods.plan import CLOSED, OPEN, Gate, Plan

if TYPE_CHECKING:
    from gradgate.methods.blocks import Blocks
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
    from gradgate.methods.grades import GradES
    from gradgate.methods.hft import HFT
    from gradgate.methods.layerwise_lr import LayerwiseRates, RateMethod
    from gradgate.methods.lisa import LISA
    from gradgate.methods.mixout import Mixout
    from gradgate.methods.mofo import MoFO
    from gradgate.methods.sparse import ChildTuning, Sparse
    from gradgate.methods.spectrum import Spectrum
    from gradgate.methods.unfreezing import LPFT, GivenOrder, GradFreeze, Gradual, RandomOrder

__all__ = [
    "CLOSED",
    "FUN",
    "HFT",
    "LISA",
    "LPFT",
    "OPEN",
    "AnnealGradDrop",
    "AnnealLayerGradDrop",
    "BitFit",
    "Blocks",
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
    "GradES",
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
    "MoFO",
    "Modifier",
    "NamedGroups",
    "Plan",
    "RandomOrder",
    "RateMethod",
    "Sparse",
    "Spectrum",
    "method",
    "methods",
    "register",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    OWN_METHODS | {"Combined": "gradgate.methods.combined", "RateMethod": "gradgate.methods.layerwise_lr"},
)
