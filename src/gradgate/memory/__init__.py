"""Predict the memory of a training: run its steps on fake tensors and count the live storages."""

from __future__ import annotations

from gradgate.memory.live_bytes import LiveBytes
from gradgate.memory.usage import DEVICES, GIB, MemoryEstimate, PhaseMemory, Usage

__all__ = ["DEVICES", "GIB", "LiveBytes", "MemoryEstimate", "PhaseMemory", "Usage"]
