"""Store what training changed in one safetensors file, relative to the base model.

A delta contains the tensors that differ from the base's: in full under their names, or as ``NAME.idx`` (flat indices of
the elements that differ, increasing; int32, or int64 from 2^31 elements on) and ``NAME.val`` (their values), whichever
is smaller. Everything else is as in the base, whose fingerprint the delta records. A table with more or fewer rows than
the base's is stored like any other: flat indices refer to the new shape, which is in the metadata, and include every
element of a new row. So is a tensor of another dtype: the metadata name the dtype that the base's is cast to first.

::

    gg.deltas.create("trained", "base", "task.safetensors")
    gg.deltas.apply("task.safetensors", "base", "trained-again")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.lazy import lazy_names

if TYPE_CHECKING:
    from gradgate.deltas.application import apply
    from gradgate.deltas.bank import Bank
    from gradgate.deltas.creation import create
    from gradgate.deltas.delta import Delta, info, load
    from gradgate.deltas.peft_export import export
    from gradgate.deltas.shared_prefix import SharedPrefix
    from gradgate.deltas.weight_patch import WeightPatch, weight_patches

__all__ = [
    "Bank",
    "Delta",
    "SharedPrefix",
    "WeightPatch",
    "apply",
    "create",
    "export",
    "info",
    "load",
    "weight_patches",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Bank": "gradgate.deltas.bank",
        "Delta": "gradgate.deltas.delta",
        "SharedPrefix": "gradgate.deltas.shared_prefix",
        "WeightPatch": "gradgate.deltas.weight_patch",
        "apply": "gradgate.deltas.application",
        "create": "gradgate.deltas.creation",
        "export": "gradgate.deltas.peft_export",
        "info": "gradgate.deltas.delta",
        "load": "gradgate.deltas.delta",
        "weight_patches": "gradgate.deltas.weight_patch",
    },
)
