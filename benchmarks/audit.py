"""Time what an audit adds to the steps of a training.

It trains the embedded encoder with AdamW. The audit looks at steps 1, 2, 4, 8, 16, 32 and 64 and at the end. Hooks
around it measure its time, since the steps vary by more than it takes. Its start is the first step, in which it finds
the model and maps its layers, once per optimizer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from benchmarks.timing import rows
from gradgate.sample import MODEL

STEPS, ROUNDS = 64, 5


def run() -> list[str]:
    """Return the milliseconds of all steps without the audit, and with it."""
    ids = torch.randint(5, 100, (16, 48), generator=torch.Generator().manual_seed(0))
    labels = torch.arange(16) % 2
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def train() -> None:
        for _ in range(STEPS):
            model(input_ids=ids, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    train()
    plain, start, rest = (median(times) for times in zip(*(_audited(train, model) for _ in range(ROUNDS)), strict=True))
    times = {"plain": plain, "with an audit": plain + rest + start, "its start left out": plain + rest}
    return rows(f"{STEPS} steps", times)


def _audited(train: Callable[[], None], model: torch.nn.Module) -> tuple[float, float, float]:
    """Return the seconds of an audited training without its audit, of the audit's first step, and of its others."""
    marks: list[float] = []

    def mark(*_: object) -> None:
        marks.append(time.perf_counter())

    hooks = [register_optimizer_step_pre_hook(mark), register_optimizer_step_post_hook(mark)]
    with gg.audit(model):
        hooks += [register_optimizer_step_pre_hook(mark), register_optimizer_step_post_hook(mark)]
        begun = time.perf_counter()
        train()
        trained = time.perf_counter()
    end = time.perf_counter() - trained
    for hook in hooks:
        hook.remove()
    steps = [marks[place : place + 4] for place in range(0, len(marks), 4)]
    first, *others = (pre - before + post - after for before, pre, after, post in steps)
    return trained - begun - first - sum(others), first, sum(others) + end
