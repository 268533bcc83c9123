"""Predict the memory of a training: run its steps on fake tensors and count the live storages."""

from __future__ import annotations

from gradgate.memory.live_bytes import LiveBytes
from gradgate.memory.usage import DEVICES, GIB, OVERHEAD, MemoryEstimate, PhaseMemory, Usage

__all__ = ["DEVICES", "GIB", "OVERHEAD", "LiveBytes", "MemoryEstimate", "PhaseMemory", "Usage"]
