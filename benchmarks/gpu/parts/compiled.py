"""Count the graphs that a compiled model needs while layers open, with and without CUDA graphs, and time its steps.

The whole model is one graph here, so each set of open layers needs one. A dry run traces without making kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import NONE_DIFFERS, Figure, Goal
from benchmarks.gpu.models import batch_of, encoder
from benchmarks.gpu.timing import seconds

LAYERS, PER_PHASE = 3, 6
_CUDA_GRAPHS = "reduce-overhead"  # the mode of torch.compile
_METHOD = f"gradual:every={PER_PHASE},freeze_embeddings=always"
_ONE = Goal("at most", 1, always=True)


def cases(bench: Bench) -> list[Case]:
    """Return the phases in each mode, then masks under CUDA graphs."""
    return [
        Case("phases, compiled", partial(_phases, None)),
        Case("phases, CUDA graphs", partial(_phases, _CUDA_GRAPHS)),
        Case("masks, CUDA graphs", _masks),
    ]


def _phases(mode: str | None, bench: Bench) -> Iterator[Figure]:
    name = "CUDA graphs" if mode else "compiled"
    torch._dynamo.reset()
    counters.clear()
    steps = PER_PHASE * _layers(bench)
    eager, _, _ = _trained(bench, None, steps, compiled=False)
    times, graphs, begins = _trained(bench, mode, steps, compiled=True)
    within = sum(count for number, count in enumerate(graphs) if number not in begins)
    ends = [*begins[1:], steps]
    per_phase = [sum(graphs[start:end]) for start, end in zip(begins, ends, strict=True)]
    yield Figure(f"{name}, phases", len(begins), "")
    yield Figure(f"{name}, graphs made in steps that begin no phase", within, "graphs", Goal("exactly", 0, always=True))
    yield Figure(f"{name}, most graphs of a phase", max(per_phase), "graphs", _ONE)
    last = slice(-(PER_PHASE // 2), None)  # long after the last graph was made
    yield Figure(f"{name}, step of the last phase over not compiled", median(times[last]) / median(eager[last]), "x")
    if mode and bench.on_cuda:
        yield Figure(f"{name}, graphs that were skipped", counters["inductor"]["cudagraph_skips"], "graphs")
    torch._dynamo.reset()


def _layers(bench: Bench) -> int:
    return 2 if bench.dry else LAYERS


def _compiled(bench: Bench, model: Any, mode: str | None) -> Any:
    if bench.on_cuda:
        return torch.compile(model, mode=mode, dynamic=False)
    return torch.compile(model, backend="eager", dynamic=False)


def _trained(bench: Bench, mode: str | None, steps: int, *, compiled: bool) -> tuple[list[float], list[int], list[int]]:
    """Return the seconds of each step, the graphs that it made, and the numbers of the steps that begin a phase."""
    model = encoder(bench, _layers(bench))
    batch, layers = batch_of(bench, model, 16, 128), gg.map_layers(model)
    called = _compiled(bench, model, mode) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    times, graphs = list[float](), list[int]()

    def step() -> None:
        if mode and bench.on_cuda:
            torch.compiler.cudagraph_mark_step_begin()
        called(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    with gg.Tuner(called, optimizer, _METHOD, layers=layers, total_steps=steps) as tuner:
        for _ in range(steps):
            before = counters["stats"]["unique_graphs"]
            times.append(seconds(bench, step))
            graphs.append(counters["stats"]["unique_graphs"] - before)
        begins = [phase.step for phase in tuner.timeline.phases if phase.step < steps]
    return times, graphs, begins


def _masks(bench: Bench) -> Iterator[Figure]:
    """Compare which elements of the gradients are dropped with and without CUDA graphs, over steps that replay them."""
    torch._dynamo.reset()
    differ = 0
    for one, other in zip(_dropped(bench, compiled=True), _dropped(bench, compiled=False), strict=True):
        differ += int((one != other).sum())
    torch._dynamo.reset()
    yield Figure("graddrop:p=0.2 under CUDA graphs, elements dropped otherwise", differ, "elements", NONE_DIFFERS)


def _dropped(bench: Bench, *, compiled: bool) -> list[Tensor]:
    """Return which elements of one matrix of each layer have no gradient, step by step."""
    model = encoder(bench, _layers(bench))
    batch = batch_of(bench, model, 16, 128)
    called = _compiled(bench, model, _CUDA_GRAPHS) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    found = []
    with gg.Tuner(called, optimizer, "graddrop:p=0.2", total_steps=100):
        for _ in range(6):
            if bench.on_cuda:
                torch.compiler.cudagraph_mark_step_begin()
            called(**batch).loss.backward()
            matrices = [layer.intermediate.dense.weight.grad for layer in model.bert.encoder.layer]
            found += [(gradient == 0).cpu() for gradient in matrices]
            optimizer.step()
            optimizer.zero_grad()
    return found
