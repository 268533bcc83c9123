"""What learns when: one file a family of methods, and the catalogue of all of them."""

from gradgate.methods.base import CLOSED, OPEN, Gate, Memory, Method, Plan
from gradgate.methods.catalog import MethodInfo, method, methods, register
from gradgate.methods.fisher import FisherUnfreezing
from gradgate.methods.fixed import BitFit, Freeze, Full, Head, NamedGroups
from gradgate.methods.graddrop import AnnealGradDrop, AnnealLayerGradDrop, GradDrop, LayerGradDrop
from gradgate.methods.graddrop_epoch import GradDropEpoch, GradDropEpochToggle
from gradgate.methods.unfreezing import LPFT, GivenOrder, GradFreeze, Gradual, RandomOrder

__all__ = [
    "CLOSED",
    "LPFT",
    "OPEN",
    "AnnealGradDrop",
    "AnnealLayerGradDrop",
    "BitFit",
    "FisherUnfreezing",
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
    "Memory",
    "Method",
    "MethodInfo",
    "NamedGroups",
    "Plan",
    "RandomOrder",
    "method",
    "methods",
    "register",
]
