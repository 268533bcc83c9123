"""What learns when: one file a family of methods, and the catalogue of all of them."""

from gradgate.methods.base import CLOSED, OPEN, Gate, Memory, Method, Plan
from gradgate.methods.catalog import MethodInfo, method, methods, register
from gradgate.methods.fixed import Freeze, Full, Head
from gradgate.methods.graddrop import GradDrop, LayerGradDrop
from gradgate.methods.unfreezing import Gradual

__all__ = [
    "CLOSED",
    "OPEN",
    "Freeze",
    "Full",
    "Gate",
    "GradDrop",
    "Gradual",
    "Head",
    "LayerGradDrop",
    "Memory",
    "Method",
    "MethodInfo",
    "Plan",
    "method",
    "methods",
    "register",
]
