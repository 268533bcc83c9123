"""Decide which weights of a pretrained transformer learn, and when, and measure which decision was best."""

from gradgate import import_path as _import_path  # noqa: F401 - before all others, whose place it decides

# isort: split
from typing import TYPE_CHECKING

from gradgate.lazy import lazy_names
from gradgate.methods import __all__ as _of_methods
from gradgate.methods import method, register

if TYPE_CHECKING:
    from gradgate import adapters, deltas, gates
    from gradgate import lightning as lightning
    from gradgate.activation_cache import ActivationCache
    from gradgate.api.analyze import analyze
    from gradgate.api.compare import Study, compare
    from gradgate.api.finished import evaluate, predict
    from gradgate.api.imports import import_results
    from gradgate.api.plan import plan
    from gradgate.api.recommend import recommend
    from gradgate.api.train import Run, train
    from gradgate.auditing.callback import AuditCallback
    from gradgate.auditing.session import audit
    from gradgate.clock import Clock
    from gradgate.errors import GradgateError
    from gradgate.layers import Group, LayerMap, Selection, map_layers, select
    from gradgate.memory.request import estimate_memory
    from gradgate.methods import (
        FUN,
        HFT,
        LISA,
        LPFT,
        AnnealGradDrop,
        AnnealLayerGradDrop,
        BitFit,
        Blocks,
        ChildTuning,
        Combined,
        Freeze,
        Full,
        Gate,
        GivenOrder,
        GradDrop,
        GradDropEpoch,
        GradDropEpochToggle,
        GradES,
        GradFreeze,
        Gradual,
        Head,
        LayerGradDrop,
        LayerwiseRates,
        Method,
        MethodInfo,
        MethodState,
        Mixout,
        MoFO,
        NamedGroups,
        Plan,
        RandomOrder,
        Sparse,
        Spectrum,
    )
    from gradgate.methods import methods as methods
    from gradgate.training.gate_callback import GateCallback
    from gradgate.training.new_tokens import new_token_rows
    from gradgate.tuner import Tuner, detach

__version__ = "0.1.0"

__all__ = [
    "FUN",
    "HFT",
    "LISA",
    "LPFT",
    "ActivationCache",
    "AnnealGradDrop",
    "AnnealLayerGradDrop",
    "AuditCallback",
    "BitFit",
    "Blocks",
    "ChildTuning",
    "Clock",
    "Combined",
    "Freeze",
    "Full",
    "Gate",
    "GateCallback",
    "GivenOrder",
    "GradDrop",
    "GradDropEpoch",
    "GradDropEpochToggle",
    "GradES",
    "GradFreeze",
    "GradgateError",
    "Gradual",
    "Group",
    "Head",
    "LayerGradDrop",
    "LayerMap",
    "LayerwiseRates",
    "Method",
    "MethodInfo",
    "MethodState",
    "Mixout",
    "MoFO",
    "NamedGroups",
    "Plan",
    "RandomOrder",
    "Run",
    "Selection",
    "Sparse",
    "Spectrum",
    "Study",
    "Tuner",
    "adapters",
    "analyze",
    "audit",
    "compare",
    "deltas",
    "detach",
    "estimate_memory",
    "evaluate",
    "gates",
    "import_results",
    "map_layers",
    "method",
    "methods",
    "new_token_rows",
    "plan",
    "predict",
    "recommend",
    "register",
    "select",
    "train",
]

# torch takes seconds to import, and so does Trainer: each is imported with the first name that needs it.
__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys((name for name in _of_methods if name in __all__), "gradgate.methods")
    | {
        "ActivationCache": "gradgate.activation_cache",
        "AuditCallback": "gradgate.auditing.callback",
        "Clock": "gradgate.clock",
        "GateCallback": "gradgate.training.gate_callback",
        "GradgateError": "gradgate.errors",
        "Group": "gradgate.layers",
        "LayerMap": "gradgate.layers",
        "Run": "gradgate.api.train",
        "Selection": "gradgate.layers",
        "Study": "gradgate.api.compare",
        "Tuner": "gradgate.tuner",
        "adapters": "gradgate.adapters",
        "analyze": "gradgate.api.analyze",
        "audit": "gradgate.auditing.session",
        "compare": "gradgate.api.compare",
        "deltas": "gradgate.deltas",
        "detach": "gradgate.tuner",
        "estimate_memory": "gradgate.memory.request",
        "evaluate": "gradgate.api.finished",
        "gates": "gradgate.gates",
        "import_results": "gradgate.api.imports",
        "lightning": "gradgate.lightning",  # not in __all__: it needs an extra
        "map_layers": "gradgate.layers",
        "new_token_rows": "gradgate.training.new_tokens",
        "plan": "gradgate.api.plan",
        "predict": "gradgate.api.finished",
        "recommend": "gradgate.api.recommend",
        "select": "gradgate.layers",
        "train": "gradgate.api.train",
    },
)
