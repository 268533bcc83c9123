"""Time one training step with each method against the plain step, and against the same layers closed by hand.

All rivals take turns on one model, so that a decoder of 1 B parameters fits a small card. A turn attaches the method,
makes a step that does not count, and times several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import Figure, Goal
from benchmarks.gpu.models import batch_of, decoder, encoder
from benchmarks.gpu.timing import seconds
from gradgate.layers import LayerMap, named_parameters

_OF_PLAIN = Goal("at most", 1.02)
_BY_HAND = Goal("at most", 1.01)
_KEPT = 10**6  # steps of one choice: the cost of a step that begins no phase
STEPS = 4


@dataclass(frozen=True)
class Training:
    """A model with all that a step of it needs.

    Attributes:
        bench: its device.
        model: with random weights.
        layers: its map.
        batch: of every step.
        precision: ``bf16`` computes float32 weights under autocast; None computes in the weights' own type.
    """

    bench: Bench
    model: Any
    layers: LayerMap
    batch: dict[str, Tensor]
    precision: torch.dtype | None

    def computing(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        if self.precision is None:
            return nullcontext()
        return torch.autocast(self.bench.device.type, dtype=self.precision)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Make one step."""
        with self.computing():
            loss = self.model(**self.batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def compile(self) -> None:
        """Compile each layer, as transformers and accelerate advise: one graph serves all layers of a kind."""
        backend = "inductor" if self.bench.on_cuda else "eager"  # of a dry run, which has no time for kernels
        for path in dict.fromkeys(group.stack for group in self.layers if group.stack):
            for layer in self.model.get_submodule(path):
                layer.compile(backend=backend, dynamic=False)


def cases(bench: Bench) -> list[Case]:
    """Return one case per model, compiled and not; the uncompiled ones first."""
    return [
        Case(f"{name}{', compiled' if compiled else ''}", partial(_timed, name, build, compiled))
        for compiled in (False, True)
        for name, build in (("encoder 110 M", _encoder), ("decoder 1 B", _decoder))
    ]


def _encoder(bench: Bench) -> Training:
    model = encoder(bench)
    return Training(bench, model, gg.map_layers(model), batch_of(bench, model, 32, 128), torch.bfloat16)


def _decoder(bench: Bench) -> Training:
    model = decoder(bench, "1 B")
    return Training(bench, model, gg.map_layers(model), batch_of(bench, model, 4, 512), None)


def _timed(name: str, build: Callable[[Bench], Training], compiled: bool, bench: Bench) -> Iterator[Figure]:
    training = build(bench)
    if compiled:
        name = f"{name}, compiled"
        training.compile()
    optimizer = torch.optim.AdamW(training.model.parameters(), lr=1e-5)
    layers = training.layers.layer_count
    closing = (f"freeze:layers={layers // 2}", f"lisa:layers=2,every={_KEPT}", f"blocks:every={_KEPT}")
    rivals = {None: _plain, "graddrop:p=0.2": partial(_tuned, "graddrop:p=0.2")}
    rivals |= {method: partial(_tuned, method) for method in closing}
    rivals |= {f"{method} by hand": partial(_by_hand, method) for method in closing}
    with torch._dynamo.config.patch(recompile_limit=64, accumulated_recompile_limit=512):  # one graph per rival
        times = _turns(training, optimizer, rivals)
    torch._dynamo.reset()
    plain = times[None]
    yield Figure(f"{name}, plain step", 1e3 * plain, "ms")
    over = "over plain"
    yield Figure(f"{name}, graddrop:p=0.2 {over}", times["graddrop:p=0.2"] / plain, "x", _OF_PLAIN)
    for method in closing:
        short = method.replace(f",every={_KEPT}", "").replace(f":every={_KEPT}", "")
        yield Figure(f"{name}, {short} {over}", times[method] / plain, "x")
        ratio = times[method] / times[f"{method} by hand"]
        yield Figure(f"{name}, {short} over the same by hand", ratio, "x", _BY_HAND)


Rival = Callable[[Training, torch.optim.Optimizer], AbstractContextManager[Any]]


def _turns(training: Training, optimizer: Any, rivals: dict[str | None, Rival]) -> dict[str | None, float]:
    """Return the median seconds of a step of each rival."""
    times: dict[str | None, list[float]] = {name: [] for name in rivals}
    rounds = 1 if training.bench.dry else 8
    steps = 1 if training.bench.dry else STEPS
    for number in range(rounds + (not training.bench.dry)):  # the first round compiles, and does not count
        for name, rival in rivals.items():
            with rival(training, optimizer):
                training.step(optimizer)
                spent = [seconds(training.bench, partial(training.step, optimizer)) for _ in range(steps)]
            if number or training.bench.dry:
                times[name].extend(spent)
    return {name: median(values) for name, values in times.items()}


@contextmanager
def _plain(training: Training, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    yield


def _tuned(method: str, training: Training, optimizer: torch.optim.Optimizer) -> AbstractContextManager[Any]:
    return gg.Tuner(
        training.model, optimizer, method, layers=training.layers, master="none", total_steps=_KEPT, steps_per_epoch=100
    )


@contextmanager
def _by_hand(method: str, training: Training, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Open what the method opens with ``requires_grad``, without gradgate."""
    with _tuned(method, training, optimizer):
        opened = {name: p.requires_grad for name, p in named_parameters(training.model).items()}
    flags = named_parameters(training.model)
    try:
        _set(flags, opened)
        yield
    finally:
        _set(flags, dict.fromkeys(flags, True))


def _set(parameters: dict[str, nn.Parameter], flags: dict[str, bool]) -> None:
    for name, parameter in parameters.items():
        parameter.requires_grad_(flags[name])
