"""Time what a tuner adds to a step whose arithmetic takes hardly any time: the work of the host, which a GPU waits for.

A 12-layer encoder of width 32 with 201 parameters, 2 x 8 tokens, AdamW. The floor is the same step without a tuner,
where what the method closes is closed by hand. Small models on a fast GPU seem to be as slow as their host: see gpu.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.timing import medians, repeated

STEPS = 10  # of a turn
WORDS = 512
KEPT = 10**6  # steps of one choice
METHODS = ("full", "freeze:layers=6", f"lisa:layers=2,every={KEPT}", f"blocks:every={KEPT}", "bitfit", "graddrop:p=0.2")


def run(rounds: int = 15) -> list[str]:
    """Return a line per method, with the step by hand and the ratio of the tuner's to it."""
    lines = []
    for method in METHODS:
        rivals = {way: repeated(stepper(method, by_hand=way == "hand"), STEPS) for way in ("hand", "tuner")}
        times = medians(rivals, rounds)
        hand, tuner = (1e3 * times[name] / STEPS for name in ("hand", "tuner"))
        name = method.replace(f",every={KEPT}", "").replace(f":every={KEPT}", "")
        lines.append(f"{name:<18} by hand {hand:7.2f} ms   with a tuner {tuner:7.2f} ms   {tuner / hand:6.3f}x")
    return lines


def stepper(method: str, *, by_hand: bool) -> Callable[[], None]:
    """Return a step of a model of its own, with a tuner or with its flags alone."""
    model = encoder(12, 32, WORDS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    tuner = gg.Tuner(model, optimizer, method, total_steps=KEPT, steps_per_epoch=100)
    if by_hand:
        opened = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        tuner.detach()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(opened[name])
    return partial(_step, model, optimizer, batch_of(2, 8, WORDS))


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> None:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
