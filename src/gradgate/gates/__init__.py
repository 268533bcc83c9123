"""Gate elements at random: one definition of which elements pass, one back end per kind of memory.

Element ``i`` (its index in the full, unsharded tensor) passes iff ``lo <= hash32(key, i) / 2**32 < hi``. A mask
is thus a function of its key and needs no memory of its own. Every back end gives the same bits: plain torch, numba
on the CPU, Triton on CUDA. Methods decide with keys alone; torch is imported when a tensor is gated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.gates.key import key, uniform
from gradgate.lazy import lazy_names

if TYPE_CHECKING:
    from gradgate.gates.apply import apply_, apply_each_, mask, restore_
    from gradgate.gates.reference import multiply_noise_

__all__ = ["apply_", "apply_each_", "key", "mask", "multiply_noise_", "restore_", "uniform"]

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(("apply_", "apply_each_", "mask", "restore_"), "gradgate.gates.apply")
    | {"multiply_noise_": "gradgate.gates.reference"},
)
