"""Scores as arrays: what is not a finite number is refused, and what differs by rounding only is level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from gradgate.errors import DataError

Array: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

# Scores that differ by less than this part of their size differ by rounding only.
ROUNDING = 1e-12


def finite(values: Sequence[float], names: Iterable[str] = ()) -> Array:
    """The values as a float64 array of shape ``(n,)``.

    Args:
        names: what each value belongs to, for the error.

    Raises:
        DataError: if a value is not finite.
    """
    array: Array = np.asarray(values, dtype=np.float64).reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        known = list(names)
        shown = [f"{array[i]} for {known[i] if known else f'value {i}'}" for i in wrong]
        raise DataError(f"Scores must be finite numbers; got {', '.join(shown)}. Leave failed runs out and count them.")
    return array


def level(values: Array) -> bool:
    """Whether all values are the same but for rounding."""
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())
