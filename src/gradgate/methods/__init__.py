"""Decide what learns when: one file per family of methods, and the catalogue of all of them.

Calling this module lists the catalogue, as :func:`gradgate.methods.catalog.methods` does.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from gradgate.lazy import lazy_names
from gradgate.methods.base import Method
from gradgate.methods.catalog import OWN_METHODS, MethodInfo, method, methods, register
from gradgate.methods.mixins import HasStateOption, HasUnitOption, Modifier
from gradgate.methods.plan import CLOSED, OPEN, Gate, Plan
from gradgate.methods.traits import MethodState, MixoutSettings, Traits

if TYPE_CHECKING:
    from gradgate.methods.blocks import Blocks
    from gradgate.methods.combined import Combined
    from gradgate.methods.fixed import BitFit, Freeze, Full, Head, NamedGroups, Probe
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
    from gradgate.methods.gradfreeze import GradFreeze
    from gradgate.methods.hft import HFT
    from gradgate.methods.layerwise_lr import LayerwiseRates, RateModifier
    from gradgate.methods.lisa import LISA
    from gradgate.methods.mixout import Mixout
    from gradgate.methods.mofo import MoFO
    from gradgate.methods.sparse import ChildTuning, Sparse
    from gradgate.methods.spectrum import Spectrum
    from gradgate.methods.unfreezing import LPFT, GivenOrder, Gradual, RandomOrder

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
    "ChildTuning",
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
    "HasStateOption",
    "HasUnitOption",
    "Head",
    "LayerGradDrop",
    "LayerwiseRates",
    "Method",
    "MethodInfo",
    "MethodState",
    "Mixout",
    "MixoutSettings",
    "MoFO",
    "Modifier",
    "NamedGroups",
    "Plan",
    "Probe",
    "RandomOrder",
    "RateModifier",
    "Sparse",
    "Spectrum",
    "Traits",
    "method",
    "methods",
    "register",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    OWN_METHODS | {"Combined": "gradgate.methods.combined", "RateModifier": "gradgate.methods.layerwise_lr"},
)


class _CallableModule(ModuleType):
    """The class of this package, so that ``gradgate.methods`` is both a package and a function."""

    def __call__(self) -> list[MethodInfo]:
        return methods()


sys.modules[__name__].__class__ = _CallableModule
