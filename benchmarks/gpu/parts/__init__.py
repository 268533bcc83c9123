"""List the parts in the order in which they are measured: what a lent GPU must show first comes first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One subject, in a module of its own with ``cases(bench)``.

    Attributes:
        name: of its figures.
        module: full name.
        title: of its section on the page.
        seconds: of eight minutes; other lengths are divided in proportion.
    """

    name: str
    module: str
    title: str
    seconds: float


def _part(name: str, title: str, seconds: float) -> Part:
    return Part(name, f"benchmarks.gpu.parts.{name}", title, seconds)


PARTS = (
    _part("gate", "The sparse gate: bits, and bandwidth against a copy", 25),
    _part("step", "One training step with each method", 95),
    _part("memory", "Peak memory, and what gradgate memory predicts", 120),
    _part("masters", "Float32 masters, and optimizer states in host memory", 30),
    _part("switch", "Switching deltas", 25),
    _part("cached", "The activation cache", 30),
    _part("texts", "Generation and prediction", 40),
    _part("fsdp2", "FSDP2 with one process", 20),
    _part("compiled", "torch.compile and CUDA graphs over phases", 55),
    _part("resume", "Resume", 15),
    _part("commands", "Commands that measure models", 25),
)
