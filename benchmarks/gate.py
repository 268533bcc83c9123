"""The sparse gate on 25 M float32 elements against a scaled copy in place and a torch.rand mask."""

from __future__ import annotations

import torch

from benchmarks.timing import medians
from gradgate import gates

ELEMENTS = 25_000_000


def run(rounds: int = 7) -> list[str]:
    """One line a rival."""
    torch.manual_seed(0)
    gradient = torch.randn(ELEMENTS)
    key = gates.key(seed=0, stream="bench", name="weight", draw=0)

    def naive() -> None:
        gradient.mul_((torch.rand_like(gradient) >= 0.2).to(gradient.dtype)).mul_(1.25)

    times = medians(
        {
            "g.mul_(c)": lambda: gradient.mul_(1.0),
            "gradgate gate": lambda: gates.apply_(gradient, lo=0.2, hi=1.0, scale=1.25, key=key),
            "torch.rand mask": naive,
        },
        rounds,
    )
    base = times["g.mul_(c)"]
    return [f"{name:<18}{1e3 * seconds:9.2f} ms   {seconds / base:6.2f}x" for name, seconds in times.items()]
