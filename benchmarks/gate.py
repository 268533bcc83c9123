"""Time the sparse gate against what torch offers, from 1 M to 500 M elements.

25 M elements on the CPU, and its cost by size; ``python -m benchmarks gpu gate`` measures it on CUDA.

The floor is ``g.mul_(c)``, which reads and writes each element once, as the gate does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.timing import medians, repeated, rows
from gradgate import gates

ELEMENTS = 25_000_000
MILLIONS = (1, 5, 25, 100, 500)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
KEY = gates.key(seed=0, stream="bench", name="weight", draw=0)
DROPPED, SCALE = 0.2, 1.25
OTHERS = ("g.mul_(c)", "torch.rand", "bernoulli_")  # lines that time something else


def run(rounds: int = 7) -> list[str]:
    """Return one line per rival."""
    torch.manual_seed(0)
    lines = [line for dtype in DTYPES for line in on_cpu(dtype, rounds)]
    return [*lines, *(growth(millions, rounds) for millions in MILLIONS)]


def gate(gradient: Tensor) -> Tensor:
    return gates.apply_(gradient, lo=DROPPED, hi=1.0, scale=SCALE, key=KEY)


def on_cpu(dtype: torch.dtype, rounds: int) -> list[str]:
    gradient = torch.randn(ELEMENTS).to(dtype)

    def rand() -> None:
        gradient.mul_((torch.rand_like(gradient) >= DROPPED).to(dtype)).mul_(SCALE)

    def bernoulli() -> None:
        gradient.mul_(torch.empty_like(gradient).bernoulli_(1 - DROPPED)).mul_(SCALE)

    rivals = {
        "g.mul_(c)": lambda: gradient.mul_(1.0),
        "gradgate gate": lambda: gate(gradient),
        "torch.rand mask": rand,
        "bernoulli_ mask": bernoulli,
    }
    return rows(f"CPU {dtype}", medians(rivals, rounds))


def growth(millions: int, rounds: int) -> str:
    gradient = torch.randn(millions * 1_000_000)
    calls = max(1, 25 // millions)  # repeat small ones: a single call is too short to time
    rivals = {"mul": lambda: gradient.mul_(1.0), "gate": lambda: gate(gradient)}
    times = medians({name: repeated(rival, calls) for name, rival in rivals.items()}, rounds)
    spent = times["gate"] / calls
    return (
        f"CPU float32, {millions:3d} M elements: {1e3 * spent:8.2f} ms, {1e3 * spent / millions:.3f} ms for a million, "
        f"{times['gate'] / times['mul']:.2f}x of g.mul_(c)"
    )
