"""Represent the memory of a training: bytes by purpose, per phase, and the devices that they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

GIB = 2**30
DEVICES = (16, 24, 40, 48, 80, 141)
"""GiB of memory of the usual accelerators."""
OVERHEAD = GIB
"""Bytes of a device that hold no tensors of the training: the CUDA context with its kernels, and blocks that the
allocator reserves.

Hugging Face's "Model training anatomy" (https://huggingface.co/docs/transformers/model_memory_anatomy) puts the loaded
kernels at 1 to 2 GB; contexts of newer versions load kernels when they are first called, so this is the lower end.
"""


@dataclass(frozen=True)
class Usage:
    """The live bytes at one moment of a step.

    Attributes:
        at: ``forward``, ``backward`` or ``step``.
        weights: parameters and buffers, with initial weights and masks that a method keeps.
        gradients: of parameters.
        optimizer: its state.
        masters: float32 copies of weights in a shorter format.
        activations: everything else: tensors that backward needs, the batch, and temporaries of operations.
    """

    at: str = "forward"
    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    masters: int = 0
    activations: int = 0

    @property
    def peak(self) -> int:
        """The sum."""
        return self.weights + self.gradients + self.optimizer + self.masters + self.activations

    def plus(self, **more: int) -> Usage:
        """Return the usage with more bytes of some kinds."""
        return replace(self, **{name: getattr(self, name) + size for name, size in more.items()})


@dataclass(frozen=True)
class PhaseMemory:
    """The peak of a phase of a training.

    Attributes:
        step: optimizer steps done when it begins.
        steps: how many there are.
        learns: the open groups, as text.
        usage: at the peak.
        supposed: whether the open groups depend on a measurement that only the training will make.
    """

    step: int
    steps: int
    learns: str
    usage: Usage
    supposed: bool = False

    @property
    def text(self) -> str:
        """The phase in one line."""
        last = self.step + self.steps
        steps = f"step {last}" if self.steps == 1 else f"steps {self.step + 1}-{last}"
        return f"{steps}: {self.learns}{' (supposed)' if self.supposed else ''}"


@dataclass(frozen=True)
class MemoryEstimate:
    """The memory that a training with a method will need.

    Attributes:
        method: its text, or the label that was passed.
        phases: all phases in order.
        accumulate: forward and backward passes per optimizer step.
        choice: for a method that chooses what learns by a measurement, ``measured`` if the weights were measured for
            the estimate, else ``supposed``: the costliest of several choices; None for all other methods.
    """

    method: str
    phases: tuple[PhaseMemory, ...]
    accumulate: int = 1
    choice: Literal["measured", "supposed"] | None = None

    @property
    def worst(self) -> PhaseMemory:
        """The first phase with the highest peak."""
        return max(self.phases, key=lambda phase: phase.usage.peak)

    @property
    def peak_bytes(self) -> int:
        """The most live bytes at any moment."""
        return self.worst.usage.peak

    def fits(self, gib: float) -> bool:
        """Return True if the peak and :data:`OVERHEAD` take at most ``gib`` GiB."""
        return self.peak_bytes + OVERHEAD <= gib * GIB

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        usage = self.worst.usage
        return {
            "method": self.method,
            "peak_bytes": usage.peak,
            "weights_bytes": usage.weights,
            "gradient_bytes": usage.gradients,
            "optimizer_bytes": usage.optimizer,
            "master_bytes": usage.masters,
            "activation_bytes": usage.activations,
            "overhead_bytes": OVERHEAD,
            "accumulate": self.accumulate,
            "fits": {f"{gib}GiB": self.fits(gib) for gib in DEVICES},
            "at": usage.at,
            "phase": self.worst.text,
            "choice": self.choice,
        }


def in_words(groups: Sequence[str], every: Sequence[str], most: int = 6) -> str:
    """Format names of groups: neighbours as a range, and ``all`` for all."""
    if not groups:
        return "nothing"
    if len(groups) == len(every):
        return "all"
    place = {name: number for number, name in enumerate(every)}
    runs: list[list[str]] = []
    for name in groups:
        joins = bool(runs) and place[name] == place[runs[-1][-1]] + 1 and name.startswith("layers.")
        if joins and runs[-1][-1].startswith("layers."):
            runs[-1].append(name)
        else:
            runs.append([name])
    words = [run[0] if len(run) == 1 else f"{run[0]}..{run[-1].removeprefix('layers.')}" for run in runs]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
