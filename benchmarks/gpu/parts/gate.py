"""Compare the gate's bits with those of the CPU, and its time with that of a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import NONE_DIFFERS, Figure, Goal
from benchmarks.gpu.timing import medians
from gradgate import gates
from gradgate.gates import reference
from gradgate.gates.key import window

ELEMENTS = 500_000_000
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
KEY = gates.key(seed=0, stream="bench", name="weight", draw=0)
DROPPED, SCALE = 0.2, 1.25
_WORDS = {2: torch.int16, 4: torch.int32}
_OF_A_COPY = Goal("at least", 0.8)


def cases(bench: Bench) -> list[Case]:
    """Return the times, which take seconds, then the bits, which the CPU must compute as well."""
    times = [Case(f"{_name(dtype)}, times", partial(_times, dtype)) for dtype in DTYPES]
    bits = [Case(f"{_name(dtype)}, bits", partial(_bits, dtype)) for dtype in DTYPES]
    return [*times, Case("a model's gradients", _many), *bits]


def _bits(dtype: torch.dtype, bench: Bench) -> Iterator[Figure]:
    name, gradient = _name(dtype), _gradient(dtype, bench)
    count = len(gradient)
    expected = _gate_on_cpu(bench, gradient)
    differ = _differing(_gated(gradient).cpu(), expected)
    yield Figure(f"{name}, elements that differ from the CPU's", differ, "elements", NONE_DIFFERS, f"of {count:,}")
    restored, before = torch.randn_like(gradient), torch.randn_like(gradient)
    expected = _restore_on_cpu(bench, restored, before)
    gates.restore_(restored, before, lo=DROPPED, hi=1.0, key=KEY)
    differ = _differing(restored.cpu(), expected)
    yield Figure(f"{name}, restored elements that differ", differ, "elements", NONE_DIFFERS, f"of {count:,}")


def _times(dtype: torch.dtype, bench: Bench) -> Iterator[Figure]:
    name, gradient = _name(dtype), _gradient(dtype, bench)
    before = torch.empty_like(gradient)
    rivals: dict[str, Callable[[], object]] = {
        "copy": lambda: before.copy_(gradient),
        "gate": lambda: _gated(gradient),
        "product": lambda: gradient.mul_(1.0),
    }
    times = medians(bench, rivals)
    moved = 2 * gradient.nbytes
    yield Figure(f"{name}, copy", moved / times["copy"] / 1e9, "GB/s")
    yield Figure(f"{name}, gate", moved / times["gate"] / 1e9, "GB/s")
    yield Figure(f"{name}, bandwidth of the gate over that of the copy", times["copy"] / times["gate"], "x", _OF_A_COPY)
    yield Figure(f"{name}, time of the gate over that of g.mul_(c)", times["gate"] / times["product"], "x")


def _many(bench: Bench) -> Iterator[Figure]:
    """Gate the gradients of BERT-base: in one launch, in a launch each, and copied with one call of foreach."""
    shapes = list(_shapes(layers=1, width=32, words=100) if bench.dry else _shapes())
    gradients = [torch.randn(shape, device=bench.device) for shape in shapes]
    others = [torch.empty_like(gradient) for gradient in gradients]
    keys = [gates.key(seed=0, stream="bench", name=f"{number}", draw=0) for number in range(len(gradients))]

    def each() -> None:
        for gradient, key in zip(gradients, keys, strict=True):
            gates.apply_(gradient, lo=DROPPED, hi=1.0, scale=SCALE, key=key)

    rivals: dict[str, Callable[[], object]] = {
        "copy": lambda: torch._foreach_copy_(others, gradients),
        "one launch": lambda: gates.apply_each_(gradients, lo=DROPPED, hi=1.0, scale=SCALE, keys=keys),
        "a launch each": each,
    }
    times = medians(bench, rivals)
    share = times["copy"] / times["one launch"]
    yield Figure(f"{len(shapes)} tensors in one launch", 1e3 * times["one launch"], "ms")
    yield Figure(f"{len(shapes)} tensors, a launch each", 1e3 * times["a launch each"], "ms")
    yield Figure(f"{len(shapes)} tensors, bandwidth of one launch over that of torch._foreach_copy_", share, "x")


def _name(dtype: torch.dtype) -> str:
    return f"{dtype}".removeprefix("torch.")


def _gradient(dtype: torch.dtype, bench: Bench) -> Tensor:
    return torch.randn(10_000 if bench.dry else ELEMENTS, device=bench.device).to(dtype)


def _gated(gradient: Tensor) -> Tensor:
    return gates.apply_(gradient, lo=DROPPED, hi=1.0, scale=SCALE, key=KEY)


def _gate_on_cpu(bench: Bench, gradient: Tensor) -> Tensor:
    """Gate a copy with the CPU's compiled back end; in a dry run, where that is measured itself, with plain torch."""
    copied = gradient.to("cpu", copy=True)
    return _gated(copied) if bench.on_cuda else reference.apply_(copied, *window(DROPPED, 1.0), SCALE, KEY, 0)


def _restore_on_cpu(bench: Bench, changed: Tensor, before: Tensor) -> Tensor:
    copied, old = changed.to("cpu", copy=True), before.cpu()
    if bench.on_cuda:
        return gates.restore_(copied, old, lo=DROPPED, hi=1.0, key=KEY)
    return reference.restore_(copied, old, *window(DROPPED, 1.0), KEY, 0)


def _differing(one: Tensor, other: Tensor) -> int:
    """Count the elements of two tensors on the CPU whose bits differ."""
    words = _WORDS[one.element_size()]
    return int((one.view(words) != other.view(words)).sum())


def _shapes(layers: int = 12, width: int = 768, words: int = 30522) -> Iterable[tuple[int, ...]]:
    """Yield the shapes of the parameters of an encoder of BERT's kind, with a pooler and a classifier."""
    norm = [(width,), (width,)]
    square, up, down = (width, width), (4 * width, width), (width, 4 * width)
    linear = [shape for matrix in (square,) * 4 + (up, down) for shape in (matrix, matrix[:1])]
    yield from [(words, width), (512, width), (2, width), square, (width,), (2, width), (2,), *norm]
    yield from (linear + norm + norm) * layers
