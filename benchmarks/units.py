"""Time one training step with 514 units: the modules of 64 layers of width 256, batch 4 x 64 tokens, AdamW.

The floor is the same loop with the same modules opened and closed by hand. ``lisa`` keeps one choice, as most steps of
any method do; ``lisa:every=1`` and ``layer-graddrop`` draw a new one for each step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.timing import medians, rows

KEPT = "lisa:layers=256,every=1000000,unit=module"
DRAWN = "lisa:layers=256,every=1,unit=module"
DROPPED = "layer-graddrop:p=0.5,unit=module"
STEPS = 1000  # of the planned training, of which a few are timed


def run(rounds: int = 9) -> list[str]:
    """Return one table per way to choose; the model is stepped once in each round."""
    lines = [f"{gg.map_layers(encoder(64, 256)).at('module').layer_count + 2} groups"]
    for method in (KEPT, DRAWN, DROPPED):
        times = medians({"by hand": by_hand(method), method: with_tuner(method)}, rounds)
        lines += rows(method.partition(",unit")[0], times)
    return lines


def with_tuner(method: str) -> Callable[[], None]:
    model = encoder(64, 256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    gg.Tuner(model, optimizer, method, total_steps=STEPS, steps_per_epoch=100)
    batch = batch_of(4, 64)

    def step() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def by_hand(method: str) -> Callable[[], None]:
    """Return a step that makes the method's choices by hand, known beforehand."""
    model = encoder(64, 256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    layers = gg.map_layers(model).at("module")
    members = {group.name: [model.get_parameter(name) for name in group.parameter_names] for group in layers}
    read, choices = gg.method(method), []
    for done in range(60):
        plan = read.plan(gg.Clock(done, 100, STEPS), layers, gg.MethodState())
        choices.append([(members[name], gate) for name, gate in plan.items()])
    batch, coming = batch_of(4, 64), iter(choices)

    def step() -> None:
        choice = next(coming)
        for parameters, gate in choice:
            for parameter in parameters:
                parameter.requires_grad_(gate.share > 0)
        model(**batch).loss.backward()
        for parameters, gate in choice:
            if gate.dropped:
                for parameter in parameters:
                    parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()

    return step
