"""Time the sparse gate against what torch offers, from 1 M to 500 M elements.

25 M elements on the CPU, and its cost by size; on CUDA, if available, 500 M elements as a share of the bandwidth of a
copy, and a 12-layer model in one launch.

The floor is ``g.mul_(c)``, which reads and writes each element once, as the gate does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import medians, repeated, rows
from gradgate import gates

ELEMENTS = 25_000_000
MILLIONS = (1, 5, 25, 100, 500)
CUDA_ELEMENTS = 500_000_000
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
KEY = gates.key(seed=0, stream="bench", name="weight", draw=0)
DROPPED, SCALE = 0.2, 1.25


def run(rounds: int = 7) -> list[str]:
    """Return one line per rival."""
    torch.manual_seed(0)
    lines = [line for dtype in DTYPES for line in on_cpu(dtype, rounds)]
    lines += [growth(millions, rounds) for millions in MILLIONS]
    if not torch.cuda.is_available():
        return [*lines, "no CUDA device, so nothing measured there"]
    return [*lines, *(line for dtype in DTYPES for line in on_cuda(dtype, 3 * rounds)), *many_on_cuda(3 * rounds)]


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


def on_cuda(dtype: torch.dtype, rounds: int) -> list[str]:
    gradient = torch.randn(CUDA_ELEMENTS, device="cuda", dtype=dtype)
    other = torch.empty_like(gradient)
    rivals: dict[str, Callable[[], object]] = {
        "copy": lambda: other.copy_(gradient),
        "gradgate gate": lambda: gate(gradient),
        "g.mul_(c)": lambda: gradient.mul_(1.0),
    }
    times = medians(waiting(rivals), rounds)
    share = times["copy"] / times["gradgate gate"]
    return [*rows(f"CUDA {dtype}", times), f"the gate has {share:.0%} of the copy's bandwidth"]


def many_on_cuda(rounds: int) -> list[str]:
    gradients = [torch.randn(shape, device="cuda") for shape in shapes()]
    keys = [gates.key(seed=0, stream="bench", name=f"{number}", draw=0) for number in range(len(gradients))]

    def each() -> None:
        for gradient, key in zip(gradients, keys, strict=True):
            gates.apply_(gradient, lo=DROPPED, hi=1.0, scale=SCALE, key=key)

    rivals: dict[str, Callable[[], object]] = {
        "one launch": lambda: gates.apply_each_(gradients, lo=DROPPED, hi=1.0, scale=SCALE, keys=keys),
        "a launch each": each,
    }
    return rows(f"CUDA {len(gradients)} tensors", medians(waiting(rivals), rounds))


def shapes(layers: int = 12, width: int = 768) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters of a base-size BERT encoder with a pooler and a classifier."""
    norm = [(width,), (width,)]
    square, up, down = (width, width), (4 * width, width), (width, 4 * width)
    linear = [shape for matrix in (square,) * 4 + (up, down) for shape in (matrix, matrix[:1])]
    ends = [(30522, width), (512, width), (2, width), square, (width,), (2, width), (2,)]
    return [*ends, *norm, *(linear + norm + norm) * layers]


def waiting(rivals: dict[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """Wrap rivals so that they return when the device is done."""

    def wait_for(rival: Callable[[], object]) -> Callable[[], object]:
        return lambda: (rival(), torch.cuda.synchronize())

    return {name: wait_for(rival) for name, rival in rivals.items()}
