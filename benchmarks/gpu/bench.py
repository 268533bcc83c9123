"""The device that a part measures on, and the cases that a part consists of."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch

from benchmarks.gpu.figures import Figure


@dataclass(frozen=True)
class Bench:
    """Where the cases of a part run.

    Attributes:
        device: CUDA, or the CPU in a dry run.
        dry: tiny shapes and few repetitions, to show that everything runs.
        known: values of the part's figures so far, those of an earlier call included.
    """

    device: torch.device
    dry: bool
    known: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def on_cuda(self) -> bool:
        """True on a GPU."""
        return self.device.type == "cuda"

    @property
    def rounds(self) -> int:
        """How often rivals take turns."""
        return 1 if self.dry else 15

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.on_cuda:
            torch.cuda.synchronize()

    def free(self) -> None:
        """Return what nothing refers to any longer to the device."""
        if self.on_cuda:
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


@dataclass(frozen=True)
class Case:
    """A measurement that is done or repeated as a whole.

    Attributes:
        name: unique within the part.
        run: yields its figures.
    """

    name: str
    run: Callable[[Bench], Iterable[Figure]]
